"""INSPECT on a real host: every target, in every read mode, asked by every kind of caller over TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity.certificates import parse_peer_certificate
from tests.rows import each_row
from tests.system.hosting import Host, agtp, running, sample, until
from tests.system.test_negotiation import POLICIES, STAY, nights
from tests.system.test_negotiation import RECIPE as STAY_RECIPE

MODES = ("public", "agent_only", "operator_only")
CALLERS = ("anonymous", "header", "own", "other", "operator")

OK, WHO, NO, NONE = 200, 401, 403, 404

PLAIN = {
    # mode:          anonymous, header, own, other, operator
    "public": (OK, OK, OK, OK, OK),
    "agent_only": (WHO, WHO, OK, NO, OK),
    "operator_only": (WHO, WHO, NO, NO, OK),
}
"""Records of the agent's own calls."""

HOSTS = {**PLAIN, "agent_only": (WHO, WHO, NO, NO, OK)}
"""Whole chains: of the agent that answered, and the host's own, of which no caller is the subject."""

TREE = {**PLAIN, "agent_only": (WHO, WHO, OK, OK, OK)}
"""Checkpoints and proofs tell nothing of what was recorded: every certificate will do."""

# Targets with rules of their own are the same in each mode.
DECISION = dict.fromkeys(MODES, (WHO, WHO, OK, NO, OK))
"""About the agent itself, by its certificate, on a development host too."""

OWN_RULES = frozenset(
    {"decision", "contract", "rcns-attempt", "upstreams", "upstream-definition", "delegated-task"}
    | {"records", "endpoints", "running", "agents", "chains", "sessions", "tools", "vitals", "backup", "feed"}
)
"""Targets whose refusals are the same in each mode."""

MINE = dict.fromkeys(MODES, (NONE, NONE, OK, NONE, OK))
"""
Contracts and attempts: callers who may not see one are not told that there is one, and a header proves no owner. What
an agent attempted with its certificate is kept apart from what was attempted in its name.
"""

EXPECTED: dict[str, dict[str, tuple[int, ...]]] = {
    "audit": PLAIN,
    "chain_head": PLAIN,
    "chain": PLAIN,
    "lifecycle": PLAIN,
    "chain of the host": HOSTS,
    "checkpoint": TREE,
    "inclusion": TREE,
    "consistency": TREE,
    "decision": DECISION,
    # One endpoint, to everybody whom DISCOVER shows it.
    "endpoint": dict.fromkeys(MODES, (OK, OK, OK, OK, OK)),
    "contract": MINE,
    "rcns-attempt": MINE,
    "upstreams": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "records": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "endpoints": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "running": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "agents": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "sessions": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "chains": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "tools": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "feed": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "backup": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "vitals": dict.fromkeys(MODES, (NO, NO, NO, NO, OK)),
    "upstream-definition": dict.fromkeys(MODES, (NO, NO, NO, NO, NONE)),
    # Its questions are decided one by one.
    "several": dict.fromkeys(MODES, (OK, OK, OK, OK, OK)),
    # Its delegator's, and for those above it; for others there is none.
    "delegated-task": dict.fromkeys(MODES, (WHO, WHO, OK, NONE, OK)),
}


@dataclass
class Table:
    """The deployment, and what there is to inspect."""

    config: Path
    plain: str
    targets: dict[str, dict[str, Any]]
    operator: str

    def client(self, host: Host, who: str) -> Client:
        agents = host.state / "agents"
        shown: dict[str, Any] = {}
        if who == "header":
            shown = {"agent_id": agent_id(host, "buyer")}
        elif who == "own":
            shown = {"cert": agents / "buyer/agent.pem", "key": agents / "buyer/agent.key"}
        elif who == "other":
            shown = {"cert": agents / "rival/agent.pem", "key": agents / "rival/agent.key"}
        elif who == "operator":
            shown = {"cert": host.state / "registrar.pem", "key": host.state / "registrar.key"}
        return Client(trust=host.state / "ca.pem", **shown)


def agent_id(host: Host, name: str) -> str:
    return str(json.loads((host.state / "agents" / name / "document.json").read_text())["agent_id"])


def fingerprint(host: Host) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate((host.state / "registrar.pem").read_bytes())
    return parse_peer_certificate(certificate.public_bytes(Encoding.DER)).fingerprint


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A host on which an agent called, changed its state, negotiated a contract and failed to use another's."""
    config = sample(tmp_path_factory.mktemp("inspect"), append=POLICIES)
    recipes = config.parent / "recipes.toml"
    recipes.write_text(recipes.read_text() + STAY_RECIPE.format(version="3"))
    with running(config) as host:
        operator = fingerprint(host)
        for name in ("buyer", "rival"):
            words = ("--scope", "booking:room", "--scope", "rcns:negotiate")
            assert agtp("agent", "new", name, *words, cwd=config.parent).returncode == 0
    found = Table(config=config, plain=config.read_text(), targets={}, operator=operator)
    with running(config) as host:
        found.targets = happen(found, host)
    return found


def happen(table: Table, host: Host) -> dict[str, dict[str, Any]]:
    """What is inspected later, with the parameters that name it."""
    buyer = agent_id(host, "buyer")
    for verb in ("deactivate", "reinstate"):
        assert host.agtp("agent", verb, "buyer", "--reason", "drill").returncode == 0
    with table.client(host, "own") as own, table.client(host, "other") as other:
        audit_id = own.call(host.uri, "DISCOVER", "/methods").audit_id
        mine = own.call(host.uri, "PROPOSE", "/", {"endpoint": STAY, "requested_duration": "P1D"}).json()
        theirs = other.call(host.uri, "PROPOSE", "/", {"endpoint": STAY, "requested_duration": "P1D"}).json()
        presented = [("Contract-Synthesized", theirs["synthesis_id"])]
        stolen = own.call(host.uri, "RESERVE", "/stay", nights(1), headers=presented)
        assert stolen.status == 464
        delegated = own.call(host.uri, "DELEGATE", input=delegation_of(host, buyer), task_id="t-1")
        assert delegated.status == 202, delegated.json()
        asked = {"target": "inclusion", "audit_id": audit_id}
        # Under load a checkpoint comes every other second; in a pause at once.
        until(lambda: own.call(host.uri, "INSPECT", input=asked).status == 200, pause=1)
    return {
        "audit": {"target": "audit", "audit_id": audit_id},
        "chain_head": {"target": "chain_head", "agent_id": buyer},
        "chain": {"target": "chain", "agent_id": buyer},
        "lifecycle": {"target": "lifecycle", "agent_id": buyer},
        "chain of the host": {"target": "chain", "chain": "host"},
        "checkpoint": {"target": "checkpoint"},
        "inclusion": asked,
        "consistency": {"target": "consistency", "size": 1},
        "decision": {"target": "decision", "agent_id": buyer, "method": "DISCOVER", "path": "/methods"},
        "endpoint": {"target": "endpoint", "method": "DISCOVER", "path": "/methods"},
        "contract": {"target": "contract", "synthesis_id": mine["synthesis_id"]},
        "rcns-attempt": {"target": "rcns-attempt", "attempt_id": stolen.headers.get("rcns-attempt-id")},
        "upstreams": {"target": "upstreams"},
        "records": {"target": "records"},
        "endpoints": {"target": "endpoints"},
        "running": {"target": "running"},
        "agents": {"target": "agents"},
        "sessions": {"target": "sessions"},
        "chains": {"target": "chains"},
        "tools": {"target": "tools"},
        "feed": {"target": "feed", "moment": "opens"},
        "backup": {"target": "backup", "moment": "begins"},
        "vitals": {"target": "vitals"},
        "several": {"target": "several", "questions": [{"target": "records"}]},
        "upstream-definition": {"target": "upstream-definition", "upstream": "mcp.none", "name": "none"},
        "delegated-task": {"target": "delegated-task", "delegation_id": delegated.result["delegation_id"]},
    }


def delegation_of(host: Host, buyer: str) -> dict[str, Any]:
    """A task that buyer hands to the librarian, and asks for later."""
    librarian = str(json.loads((host.state / "hosted/librarian/document.json").read_text())["agent_id"])
    shown = host.agtp_json(
        *("delegation", "issue", "--key", str(host.state / "agents/buyer/agent.key"), "--from", buyer),
        *("--to", librarian, "--scope", "booking:room", "--task-id", "t-1"),
    )
    return {
        "target_agent_id": librarian,
        "task": {"method": "DISCOVER", "path": "/methods"},
        "authority_scope": "booking:room",
        "delegation_token": shown["delegation_token"],
        "asynchronous": True,
    }


@dataclass(frozen=True)
class Mode:
    """A host with one mode, and a client of each caller, which keeps its connection."""

    name: str
    host: Host
    clients: dict[str, Client]


@pytest.fixture(scope="module", params=MODES)
def mode(table: Table, request: pytest.FixtureRequest) -> Iterator[Mode]:
    """The same store, served in each mode."""
    name = str(request.param)
    audit = f'\n[audit]\nread_acl = "{name}"\noperators = ["{table.operator}"]\n'
    table.config.write_text(table.plain + audit)
    with running(table.config) as host, ExitStack() as stack:
        yield Mode(name, host, {who: stack.enter_context(table.client(host, who)) for who in CALLERS})


def test_the_table_names_every_target(mode: Mode, table: Table) -> None:
    """The host's own list of targets has none that the table lacks."""
    reply = mode.clients["operator"].call(mode.host.uri, "INSPECT", input={"target": "everything"})
    assert reply.status == 422
    named = set(reply.remedy.removeprefix("Use one of ").rstrip(".").split(", "))
    assert named == {given["target"] for given in table.targets.values()}


@each_row("who", CALLERS)
@each_row("target", EXPECTED)
def test_status_by_target_mode_and_caller(target: str, who: str, mode: Mode, table: Table) -> None:
    """AGTP-192, AGTP-200 to 203: the status of each; no refusal tells the operators or another agent's identifier."""
    reply = mode.clients[who].call(mode.host.uri, "INSPECT", input=table.targets[target])
    expected = EXPECTED[target][mode.name][CALLERS.index(who)]
    assert reply.status == expected, reply.json()
    if reply.status in (WHO, NO):
        if target not in OWN_RULES:
            assert reply.json()["read_acl"] == mode.name
            assert reply.reason == ("acl-anonymous-blocked" if reply.status == WHO else "acl-not-permitted")
        text = reply.body.decode()
        assert reply.remedy and table.operator not in text
        assert agent_id(mode.host, "rival") not in text


@each_row("who", CALLERS)
def test_a_question_among_several_is_decided_as_if_it_came_alone(who: str, mode: Mode, table: Table) -> None:
    """No caller reads by several questions what one question would be refused."""
    targets = [target for target in EXPECTED if target not in ("several", "feed", "backup")]
    for begin in range(0, len(targets), 16):
        some = targets[begin : begin + 16]
        questions = [table.targets[each] for each in some]
        given = {"target": "several", "questions": questions}
        reply = mode.clients[who].call(mode.host.uri, "INSPECT", input=given)
        statuses = [answer["status"] for answer in reply.json()["result"]["answers"]]
        assert statuses == [EXPECTED[each][mode.name][CALLERS.index(who)] for each in some], some
