"""Refusals of the host as errors of MCP."""

from __future__ import annotations

from typing import Any

from agtphost.client.errors import CannotConnect
from agtphost.client.mcp.refusals import REFUSED, UNREACHABLE
from agtphost.client.reply import Reply
from agtphost.mcp.messages import refusal_fault, unreachable_fault
from agtphost.vocabulary import jsontext
from agtphost.wire.headers import Headers
from tests.rows import each_row


def reply(status: int, **body: Any) -> Reply:
    """An answer with an Audit-ID."""
    return Reply(
        status=status,
        text="",
        headers=Headers([("Audit-ID", "a1")]),
        body=jsontext.encode({"status": status, **body}),
        request_line=b"",
    )


@each_row(
    ("status", "reason", "code"),
    [
        (455, "scope-required", REFUSED),
        (403, "agent-suspended", REFUSED),
        (429, "upstream-busy", REFUSED),
        (422, "unknown-tool", -32602),
        (404, "unknown-mcp-server", -32602),
        (409, "ambiguous-tool", -32602),
        (422, "unknown-action", -32601),
        (503, "upstream-down", -32603),
    ],
)
def test_a_refusal_says_everything_that_the_host_said(status: int, reason: str, code: int) -> None:
    """Status, reason, explanation, remedy and Audit-ID, for machines and in the message."""
    error = refusal_fault(reply(status, reason=reason, explanation="Not so.", remedy="Do otherwise."), modern=True)
    assert error.code == code
    assert error.data["agtp"] == {
        "status": status,
        "reason": reason,
        "explanation": "Not so.",
        "remedy": "Do otherwise.",
        "audit_id": "a1",
    }
    assert error.message == f"{status} {reason}: Not so. Do otherwise. (Audit-ID a1)"


def test_the_message_names_the_fields_and_names_that_the_remedy_speaks_of() -> None:
    """A model that reads the message alone can correct its call."""
    faults = [{"path": "/a", "message": "is no number", "keyword": "type"}]
    said = refusal_fault(reply(422, reason="invalid-input", remedy="Correct it.", faults=faults), modern=True)
    assert '"path": "/a"' in said.message and "is no number" in said.message
    close = refusal_fault(
        reply(422, reason="unknown-tool", explanation="No.", close_matches=["files.read"]), modern=True
    )
    assert close.message == '422 unknown-tool: No. close_matches: ["files.read"]. (Audit-ID a1)'
    assert len(refusal_fault(reply(422, reason="invalid-input", faults=faults * 1000), modern=True).message) < 2000


def test_an_error_of_the_server_is_passed_on_with_the_record() -> None:
    """Code, message and data are the server's; the host's facts stand beside them."""
    upstream = {"code": -32021, "message": "needs sampling", "data": {"requiredCapabilities": {"sampling": {}}}}
    error = refusal_fault(reply(500, reason="tool-failed", result={"error": upstream}), modern=True)
    assert (error.code, error.message) == (-32021, "needs sampling")
    assert error.data["requiredCapabilities"] == {"sampling": {}}
    assert error.data["agtp"]["audit_id"] == "a1"


@each_row(("modern", "code"), [(True, -32602), (False, -32002)])
@each_row("upstream", [-32602, -32002, None])
def test_an_unknown_resource_has_the_code_of_the_clients_era(modern: bool, code: int, upstream: int | None) -> None:
    """SEP-2164: -32602 since 2026-07-28, -32002 before, whatever the server behind the host speaks."""
    body: dict[str, Any] = {"reason": "unknown-resource"}
    if upstream is not None:
        body["result"] = {"error": {"code": upstream, "message": "Resource not found"}}
    error = refusal_fault(reply(422, **body), modern=modern, uri="test://x")
    assert error.code == code
    assert error.data["uri"] == "test://x"


def test_control_characters_of_a_host_reach_no_terminal() -> None:
    """Texts of the host are untrusted: what moves a terminal's cursor is escaped."""
    error = refusal_fault(reply(403, reason="no", explanation="\x1b[2Jgone"), modern=True)
    assert "\x1b" not in error.message


def test_a_host_that_is_away_is_named() -> None:
    """No answer is no refusal: the code says so, and the message what to do."""
    error = unreachable_fault(CannotConnect("Cannot connect to h:4480.", "Check it."))
    assert error.code == UNREACHABLE
    assert error.message == "Cannot connect to h:4480. Check it."
