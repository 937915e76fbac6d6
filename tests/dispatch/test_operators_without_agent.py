"""EXECUTE is for agents; operators come as far as their own actions by a certificate that names none."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.handlers.log_context import CALL
from agtphost.identity.keys import SigningKey
from agtphost.testing import MemoryHost
from agtphost.testing.identities import key_of
from agtphost.vocabulary import media_types
from tests.rows import each_row

DIGEST = "0" * 64
TOOL = {"tool": "files.none", "sha256": DIGEST}

APPROVING = {
    "mcp.tools.approve": ("/", media_types.MCP_TOOLS, TOOL, 422, "unknown-tool"),
    "a2a.card.approve": ("/a2a/helper", media_types.A2A, {"sha256": DIGEST}, 409, "nothing-to-approve"),
    "acp.agents.approve": ("/acp/bee", media_types.ACP_RUN, {"sha256": DIGEST}, 409, "nothing-to-approve"),
}
"""Actions of operators: where, with what, and what the handler itself says where nothing is to be approved."""

OTHERS = {
    "mcp.tools.call": ("/", media_types.MCP_TOOLS, {"tool": "files.none", "arguments": {}}),
    "mcp.resources.list": ("/", media_types.MCP_TOOLS, {}),
    "mcp.logging.setLevel": ("/mcp/files", media_types.MCP_TOOLS, {"level": "info"}),
    "a2a.tasks.list": ("/a2a/helper", media_types.A2A, {}),
    "acp.runs.get": ("/acp/bee", media_types.ACP_RUN, {"run_id": "7e9a3c1e-7b3c-4a53-9d0c-5f4f4c6f0d11"}),
    "own": ("/", None, None),
}
"""Actions of agents."""


def fingerprint(key: SigningKey) -> str:
    return key.public.fingerprint


def host() -> MemoryHost:
    """Three servers behind it, none of which ever answers; an action of its operator's own."""
    made = MemoryHost(
        {
            "audit": {"operators": [fingerprint(key_of(name)) for name in ("olga", "both")]},
            "admin": {"viewers": [fingerprint(key_of("viewer"))]},
            "mcp": {"server": [{"name": "files", "command": ["/bin/false"], "cwd": "/"}]},
            "a2a": {"agent": [{"name": "helper", "url": "http://127.0.0.1:9/"}]},
            "acp": {"agent": [{"name": "bee", "url": "http://127.0.0.1:9/"}]},
        }
    )
    made.endpoint("EXECUTE", "/own", lambda context: {"done": True}, action="own", required_scopes=[])
    return made


def callers(made: MemoryHost) -> dict[str, Any]:
    """One of each kind."""
    of_key = made.identities.of_key
    return {
        "nobody": None,
        "operator": of_key(key_of("olga"), "olga"),
        "viewer": of_key(key_of("viewer"), "viewer"),
        "registrar": of_key(made.identities.registrar, "registrar"),
        "stranger": of_key(key_of("stranger"), "stranger"),
        "header": made.agent("header", certificate=False, scopes=["mcp:tools:approve"]),
        "agent": made.agent("agent"),
        "approver": made.agent(
            "approver", scopes=[f"{each}:approve" for each in ("mcp:tools", "a2a:upstreams", "acp:upstreams")]
        ),
        "both": made.agent("both"),
    }


def execute(made: MemoryHost, caller: Any, action: str, path: str, kind: str | None, payload: Any) -> tuple[int, str]:
    given = {"action": action}
    if kind is not None:
        given.update(payload_type=kind, payload=payload)
    answer = made.call("EXECUTE", path, given, caller=caller)
    return answer.status, answer.reason or ""


ADMITTED = {"operator", "both", "approver"}
"""Whoever may approve: by key, or by scope."""

UNKNOWN = {"nobody", "viewer", "registrar", "stranger"}
"""Whoever is no agent: 401. So is whoever says so by a header alone, and learns of no action."""


@pytest.mark.parametrize("action", APPROVING)
def test_operators_approve_with_any_certificate_of_theirs(action: str) -> None:
    """Agents without the scope are refused, and whoever is neither an agent nor an operator is asked who it is."""
    made = host()
    path, kind, payload, status, reason = APPROVING[action]
    found = {name: execute(made, each, action, path, kind, payload) for name, each in callers(made).items()}
    for name, told in found.items():
        if name in ADMITTED:
            assert told == (status, reason), name
        elif name in UNKNOWN | {"header"}:
            assert told == (401, "agent-unauthenticated"), name
        else:
            assert told == (403, "operators-only"), name


@each_row("action", OTHERS)
def test_an_operator_is_no_agent(action: str) -> None:
    """What agents do stays theirs: 401 as for anybody without a name, and the action is not begun."""
    made = host()
    people = {name: each for name, each in callers(made).items() if name in UNKNOWN | {"operator"}}
    found = {name: execute(made, each, action, *OTHERS[action]) for name, each in people.items()}
    assert set(found.values()) == {(401, "agent-unauthenticated")}, found


def test_lines_of_the_log_name_the_operator_who_calls() -> None:
    """A call of an operator without an agent is not called one of an unnamed caller."""
    made = MemoryHost({"operator": [{"name": "olga", "key": fingerprint(key_of("olga")), "role": "viewer"}]})
    said: list[str] = []

    def answer(context: Any) -> dict[str, Any]:
        call = CALL.get()
        assert call is not None
        said.append(call.text.partition(",")[0])
        return {}

    made.endpoint("QUERY", "/who", answer, min_assurance="none")
    for caller in (made.identities.of_key(key_of("olga"), "olga"), None):
        assert made.call("QUERY", "/who", {}, caller=caller).status == 200
    assert said == ["the operator olga called QUERY /who", "an unnamed caller called QUERY /who"]
    said.clear()
    for caller in (made.agent("sure"), made.agent("claimed", certificate=False)):
        for _ in range(2):  # The second passes with what the gates found of the first.
            assert made.call("QUERY", "/who", {}, caller=caller).status == 200
    assert said == ["sure called QUERY /who"] * 2 + ["claimed (unproven) called QUERY /who"] * 2
