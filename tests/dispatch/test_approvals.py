"""An approval releases one call, and nothing but the call that was shown (core v08 section 7.2.11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.handlers.context import EndpointContext
from tests.methods.floor_hosts import OPERATOR, FloorHost, body_of, endpoint

DELETION = {"path": "/tmp/a", "password": "hidden", "more": {"api_token": "x", "n": [1, 2]}}
TAKEN = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "password": {"type": "string"}, "more": {"type": "object"}},
    "required": ["path"],
    "additionalProperties": False,
}


class ApprovalHost(FloorHost):
    """A host with ``REMOVE /file``, of which each call is approved, and remembers each that ran."""

    def __init__(self, settings: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.ran: list[Mapping[str, Any]] = []

        def remove(context: EndpointContext) -> Any:
            self.ran.append(dict(context.input))
            return {"removed": context.input["path"]}

        bound = endpoint(
            "REMOVE", "/file", "Removes a file.", remove, taken=TAKEN, impact="irreversible", approval=True
        )
        super().__init__(settings, endpoints=(bound,), **options)

    def waits(self, body: Any = None, **options: Any) -> dict[str, Any]:
        """What a call is answered that waits."""
        answer = self.ask("REMOVE", "/file", DELETION if body is None else body, **options)
        found: dict[str, Any] = body_of(answer)
        assert (answer.status, found["reason"]) == (202, "approval-required"), found
        return found

    def decide(self, approval_id: str, status: str = "accepted", *, by: Any = OPERATOR, **said: Any) -> Any:
        """What CONFIRM is answered."""
        return self.ask("CONFIRM", "/", {"target_id": approval_id, "status": status, **said}, by=by)

    def approved(self, body: Any = None, **options: Any) -> str:
        """A call that was made, and approved by the operator."""
        approval_id = str(self.waits(body, **options)["approval_id"])
        assert self.decide(approval_id).status == 200
        return approval_id


def test_a_call_waits_is_approved_and_runs_once() -> None:
    """202 with what is waited for; the repeat has the same; approved it runs, and the next repeat waits anew."""
    host = ApprovalHost()
    first = host.waits()
    assert first["approval_id"].startswith("apr-")
    assert len(first["digest"]) == 64
    assert first["expires_at"]
    answer = host.ask("REMOVE", "/file", DELETION)
    assert answer.headers.get("retry-after") == "5"
    assert body_of(answer)["approval_id"] == first["approval_id"]
    assert not host.ran
    assert host.decide(first["approval_id"]).status == 200
    assert host.result("REMOVE", "/file", body=DELETION) == {"removed": "/tmp/a"}
    assert host.ran == [DELETION]
    assert host.waits()["approval_id"] != first["approval_id"]
    assert len(host.ran) == 1
