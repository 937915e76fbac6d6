"""
Callers whose identity cannot be verified, and who answers for those whose identity can.

Whoever claims more than to read is looked up first: its document and Genesis were retrieved and verified when the host
took it up, or it is nobody. Reading without an identity is the operator's policy, endpoint by endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Peer
from tests.dispatch.hosts import CALLER, STRANGER, DispatchHost, agent, certificate, document, payload
from tests.identity.samples import key_of, place_agent

KEY = key_of("unverified_callers key")
GOOD = {"text": "x"}
Spoil = Callable[[Path], None]


def load_callers(folder: Path) -> list[Agent]:
    """The callers that a production host admits."""
    return load_agents(folder, hosted=False, production=True, trusted_issuers=[KEY.public])[0]


def _edit(name: str, **changes: object) -> Spoil:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))

    return edit


def _remove(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


SPOILED: dict[str, Spoil] = {
    "no document": _remove("document.json"),
    "no Genesis": _remove("genesis.json"),
    "a document that was changed": _edit("document.json", scopes_accepted=["booking:*", "payments:*"]),
    "a Genesis that was changed": _edit("genesis.json", scope=["payments:*"]),
    "no JSON": lambda folder: (folder / "document.json").write_text("{") and None,
}


def ask(host: DispatchHost, who: str, scope: str, *, method: str = "RESERVE", path: str = "/desk") -> tuple[int, str]:
    """Status and reason of a request with a claim, over a connection whose certificate names the caller."""
    peer = Peer(address="127.0.0.1", certificate=certificate(who, commitment=None) if who else None)
    headers = {"Agent-ID": who, "Authority-Scope": scope} if who else {"Authority-Scope": scope}
    response = host.ask(method, path, GOOD, peer=peer, headers=headers)
    return response.status, str(document(response).get("reason", ""))


@pytest.mark.parametrize("what", SPOILED)
def test_a_write_claim_of_an_agent_that_cannot_be_verified(tmp_path: Path, what: str) -> None:
    """AGTP-311: 401 with its reason, for a claim to write; the same agent with its own documents is served."""
    agent_id = place_agent(tmp_path, KEY, name="caller")
    [good] = load_callers(tmp_path)
    assert ask(DispatchHost(caller=good), agent_id, "booking:desk")[0] == 200, "the control"
    SPOILED[what](tmp_path / "caller")
    assert load_callers(tmp_path) == []
    host = DispatchHost(caller=agent(STRANGER, "somebody", hosted=False))
    assert ask(host, agent_id, "booking:desk") == (401, "agent-unauthenticated")
    assert not host.recorder.calls
    assert payload(host)["reason"] == "agent-unauthenticated" and payload(host)["caller_id"] == ""


def test_reading_is_the_operators_policy() -> None:
    """AGTP-311: what is open to everybody is read without an identity; for the rest, and a false one, it is 401."""
    host = DispatchHost()
    assert ask(host, "", "documents:query", method="QUERY", path="/public")[0] == 200
    assert ask(host, "", "documents:query", method="QUERY", path="/words")[0] == 401
    assert ask(host, STRANGER, "documents:query", method="QUERY", path="/public") == (401, "agent-unauthenticated")
    assert ask(host, "", "booking:desk")[0] == 401


def test_the_callers_principal_is_in_every_record() -> None:
    """AGTP-309: beside its Agent-ID, of successes and refusals alike; nobody's where no caller is known."""
    host = DispatchHost()
    host.ask(body=GOOD, headers={"Agent-ID": CALLER})
    host.ask(body={"wrong": 1}, headers={"Agent-ID": CALLER})
    for at in (0, 1):
        record = payload(host, at)
        assert (record["caller_id"], record["caller_principal_id"]) == (CALLER, "acme.example")
    host.ask("QUERY", "/public", peer=Peer(address="127.0.0.1"))
    assert payload(host)["caller_id"] == "" and "caller_principal_id" not in payload(host)
    named = DispatchHost(caller=replace(host.caller, owner_id=None, principal="Jürgen & Søn"))
    named.ask(body=GOOD, headers={"Agent-ID": CALLER})
    assert payload(named)["caller_principal_id"] == "Jürgen & Søn", "without an identifier, its name"
