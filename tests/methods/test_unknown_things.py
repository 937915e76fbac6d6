"""
What a caller may not see answers as what doesn't exist: a table over everything that takes an identifier.

Each row is asked twice by each caller: with the identifier of something of alice's, and with a random one of the same
form. Status, reason, texts, length and header names must not differ. What differs by design is in :data:`DIFFERS`,
with the reason.
"""

from __future__ import annotations

import ast
import json
import re
import secrets
from base64 import urlsafe_b64decode as b64decode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agtphost.stores.rows import StateRow
from agtphost.testing.connection import Answer
from agtphost.vocabulary.reasons import Reason
from tests.methods.private_hosts import PrivateHost, strange

ID = "<id>"
CALLERS = ("nobody", "header", "gateway", "bob")
ROOT = Path(__file__).resolve().parents[2]


class Probe(NamedTuple):
    """One request that names something."""

    thing: str
    method: str
    path: str = "/"
    given: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}

    @property
    def label(self) -> str:
        """What the row is called: ``CONFIRM / target_id: approval``."""
        target = self.given.get("target", ID)
        named = f" {target}" if isinstance(target, str) and target != ID else ""
        return f"{self.method} {self.path}{named} {'/'.join((*self.given, *self.headers))}: {self.thing}"


def inspect(target: str, name: str, *things: str, **more: Any) -> Iterator[Probe]:
    """INSPECT of each of these things."""
    for thing in things:
        yield Probe(thing, "INSPECT", "/", {"target": target, name: ID, **more})


def each(things: tuple[str, ...], method: str, given: Mapping[str, Any], path: str = "/") -> Iterator[Probe]:
    """One request about each of several things."""
    for thing in things:
        yield Probe(thing, method, path, given)


TOOL = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": {"tool": ID}}
BARE = {**TOOL, "payload": {"tool": "read_file"}}
CONFIRMED = {"target_id": ID, "status": "accepted"}
TOMORROW = "<tomorrow>"
"""Stands for a time that is known when a request is made."""

ALARM = {"message": {"a": 1}, "severity": "high", "acknowledge_by": TOMORROW}
REPLY = {"in_reply_to": ID, "content": {"a": 1}}
RESUME = {"workflow_id": ID, "resumption_nonce": "x" * 22}
SHORT = (
    *("approval", "escalation", "notification", "record", "alert", "task", "workflow", "grant", "connection"),
    *("monitor", "proposal", "contract", "suspended task", "session"),
)
OWNED = (*SHORT, "queue item", "submission", "item")
LIFECYCLE = ("REVOKE", "ACTIVATE", "DEACTIVATE", "DEPRECATE", "REINSTATE")

DOCUMENTS = tuple(
    Probe(thing, method, f"/agents/{ID}{rest}", given)
    for thing in ("agent", "hosted agent", "hosted name")
    for method in ("DESCRIBE", "FETCH")
    for rest in ("", "/status", "?format=html", "?nonsense=1")
    for given in ({}, {"nonsense": 1}, {"format": 1})
)
"""What asks for documents about an agent, rightly or wrongly."""

PROBES: tuple[Probe, ...] = (
    *each(OWNED, "CONFIRM", CONFIRMED),
    *each(OWNED, "CANCEL", {"target_id": ID}),
    *each(SHORT, "REPLY", REPLY),
    *each(("workflow", "suspended session", "suspended task", "session"), "RESUME", RESUME),
    *each(("workflow", "suspended session"), "PAUSE", {"workflow_id": ID}),
    *each(("session", "suspended session"), "SUSPEND", {"session_id": ID}),
    *each(("fresh task",), "SUSPEND", {"task_id": ID}),
    *each(("task",), "RETRY", {"task_id": ID}),
    *each(("contract",), "SUSPEND", {"synthesis_id": ID}),
    *each(("contract",), "REVOKE", {"target": "contract", "synthesis_id": ID, "reason": "x"}),
    Probe("contract", "BOOK", "/room", {"guest": "Ann"}, {"Contract-Synthesized": ID}),
    Probe("proposal", "QUERY", f"/proposals/{ID}"),
    Probe("proposal", "CONFIRM", f"/proposals/{ID}", {"accepted": True}),
    Probe("negotiation", "PROPOSE", "/", {"endpoint": {}}, {"Negotiation-ID": ID}),
    *each(("approval",), "QUERY", {"id": ID}, "/approvals"),
    *each(("escalation",), "QUERY", {"escalation_id": ID}, "/escalations"),
    *each(("task",), "QUERY", {"task_id": ID}, "/escalations"),
    *each(
        ("monitor",),
        "NOTIFY",
        {"recipient": "operator", "content": {"event": "monitor_cancel", "subscription_id": ID}},
    ),
    Probe("grant token", "QUERY", "/secrets", {}, {"Delegation-Token": ID}),
    *(Probe(thing, "QUERY", "/words", {}, {"Session-ID": ID}) for thing in ("session", "suspended session")),
    *(Probe(thing, "QUERY", "/words", {}, {"Task-ID": ID}) for thing in ("task", "suspended task", "stopped task")),
    *inspect("audit", "audit_id", "record"),
    *each(("record",), "SUMMARIZE", {"source": ID}),
    *inspect("inclusion", "audit_id", "record"),
    *inspect("chain_head", "agent_id", "agent", "hosted agent"),
    *inspect("chain", "agent_id", "agent", "hosted agent"),
    *inspect("lifecycle", "agent_id", "agent", "hosted agent"),
    *inspect("contract", "synthesis_id", "contract"),
    *inspect("rcns-attempt", "attempt_id", "attempt"),
    *inspect("workflow", "workflow_id", "workflow"),
    *inspect("delegated-task", "task_id", "task"),
    *inspect("delegated-task", "delegation_id", "workflow"),
    *inspect("decision", "agent_id", "agent", "hosted agent", method="QUERY", path="/words"),
    *inspect("sessions", "agent_id", "agent"),
    *inspect("agents", "agent_id", "agent"),
    *inspect("records", "task_id", "task"),
    *inspect("running", "agent_id", "agent"),
    *each(("item", "agent", "hosted agent"), "FETCH", {"resource_id": ID}),
    *each(("agent", "hosted agent"), "FETCH", {"resource_id": f"/agents/{ID}/status"}),
    *each(("item",), "TRANSFER", {"resource_id": ID, "from_principal": "alice", "to_principal": "desk"}),
    *each(("item", "agent", "hosted agent", "tool"), "LINK", {"source": ID, "target": ID, "relationship": "same"}),
    *each(("item", "agent", "hosted agent", "tool"), "EMBED", {"source": ID, "target": ID, "binding": "b"}),
    Probe("card", "QUERY", f"/cards/{ID}"),
    Probe("card", "EXECUTE", f"/cards/{ID}", {"text": "x"}),
    Probe("card", "WITHDRAW", f"/cards/{ID}"),
    Probe("card", "RENEW", f"/cards/{ID}"),
    Probe("card", "APPROVE", f"/cards/{ID}"),
    *DOCUMENTS,
    Probe("hosted name", "QUERY", f"/agents/{ID}/words"),
    *each(("agent",), "TRANSFER", {"resource_id": "contracts/none", "from_principal": ID, "to_principal": "bob"}),
    *each(("agent",), "DELEGATE", {"target_agent_id": ID, "task": {}, "authority_scope": "documents:query"}),
    *each(("agent",), "AUTHORIZE", {"subject": ID, "resource": "QUERY /words", "scope": "documents:query"}),
    *each(("agent",), "QUERY", {"agent": ID}, "/grants"),
    *each(("agent",), "AUTHORIZE", {"subject": ID, "resource": "QUERY /words", "scope": "call"}, "/grants"),
    *each(("agent",), "REVOKE", {"subject": ID, "all": True}, "/grants"),
    *(Probe("agent", verb, "/", {"agent_id": ID, "reason": "x"}) for verb in LIFECYCLE),
    *each(("agent",), "QUERY", {"agent_id": ID}, "/delegations"),
    *each(("agent",), "NOTIFY", {"recipient": ID, "content": {"a": 1}}),
    *each(("agent",), "ESCALATE", {"recipient": ID, "task_id": "t", "reason": "scope_limit", "context": {}}),
    *each(("agent", "hosted agent"), "BROADCAST", {"audience": [ID], "content": {"a": 1}}),
    *each(("agent", "hosted agent"), "ALERT", {**ALARM, "recipient": ID}),
    *each(("agent", "hosted agent"), "ALERT", {**ALARM, "recipient": "operator", "escalation_path": [ID]}),
    *each(("agent", "hosted agent"), "CHECK", {"target": ID}),
    *each(("agent", "hosted agent"), "CHECK", {"target": ID, "depth": "deep"}),
    *each(("agent", "hosted agent"), "REPORT", {"report_type": "x", "scope": {"rows": [{"a": 1}]}, "recipient": ID}),
    *each(("agent", "hosted agent"), "ROUTE", {"payload": {}, "criteria": {"text": "x"}, "candidates": [ID]}),
    *each(("agent",), "MONITOR", {"target": ID, "events": ["lifecycle"], "callback": "inbox"}),
    *each(("tool", "ruled tool"), "EXECUTE", TOOL),
    *each(("tool", "ruled tool"), "EXECUTE", TOOL, "/mcp/files"),
    *each(("bare tool",), "EXECUTE", TOOL),
    *each(("bare tool",), "EXECUTE", TOOL, "/mcp/files"),
    Probe("upstream", "EXECUTE", f"/mcp/{ID}", BARE),
)

VERIFIES = "a certified agent that knows the name verifies whom it calls"

DIFFERS: Mapping[tuple[str, str, str], str] = {
    ("BOOK /room guest/Contract-Synthesized", "contract", "bob"): (
        "AGTP-API section 10.1.4 demands 464 contract-not-yours of another agent, and 404 of an unknown contract"
    ),
    ("QUERY /secrets Delegation-Token", "grant token", "bob"): (
        "a signed text that says whom it is for: who has it reads as much in it"
    ),
    ("QUERY /words Session-ID", "session", "bob"): (
        "core v08 section 10.5 demands that another certified agent is refused the session (AGTP-316)"
    ),
    ("QUERY /words Session-ID", "suspended session", "bob"): "likewise, and no word of the suspension",
    ("INSPECT / inclusion target/audit_id", "record", "bob"): (
        "proofs of the tree are for every certificate, and tell nothing of what was recorded"
    ),
    **{
        (
            probe.label.rpartition(":")[0],
            probe.thing,
            "bob",
        ): "a certified agent that knows the name verifies whom it calls"
        for probe in DOCUMENTS
        if probe.thing != "agent"
    },
    ("NOTIFY / recipient/content", "agent", "bob"): (
        "certified agents write to each other by name or Agent-ID; a message to nobody is refused, and not lost"
    ),
    ("TRANSFER / resource_id/from_principal/to_principal", "agent", "bob"): "likewise",
    **{
        (label, thing, "bob"): "likewise: it is a message, by another method"
        for label in (
            "BROADCAST / audience/content",
            "ALERT / message/severity/acknowledge_by/recipient",
            "ALERT / message/severity/acknowledge_by/recipient/escalation_path",
            "REPORT / report_type/scope/recipient",
        )
        for thing in ("agent", "hosted agent")
    },
    **dict.fromkeys(
        [
            ("FETCH / resource_id", "hosted agent", "bob"),
            ("LINK / source/target/relationship", "hosted agent", "bob"),
            ("EMBED / source/target/binding", "hosted agent", "bob"),
        ],
        "an agent that is hosted here is read by whom it may serve, as by DESCRIBE; one that only calls here is not",
    ),
    ("CHECK / target", "hosted agent", "bob"): "it is told whether whom it calls serves, as by DESCRIBE",
    ("CHECK / target/depth", "hosted agent", "bob"): "likewise",
    **dict.fromkeys(
        [("QUERY /agents/<id>/words ", "hosted name", who) for who in CALLERS],
        "an agent is called by its name, which whoever calls it knows; disclosure is of lists and of documents",
    ),
    ("ESCALATE / recipient/task_id/reason/context", "agent", "bob"): "likewise",
}
"""Rows that differ, by caller, each with its reason; what is left of a name like ``/agents/<id>`` is published."""

VISIBLE: Mapping[tuple[str, str], frozenset[str]] = {
    ("FETCH", "item"): frozenset({"header", "gateway"}),
    **dict.fromkeys(
        [(method, "card") for method in ("QUERY", "EXECUTE", "WITHDRAW", "RENEW")], frozenset({"header", "gateway"})
    ),
}
"""What a caller in alice's name may see with her scopes, where reading takes no certificate: not compared."""

PUBLISHED = {"upstream": "the manifest lists the upstreams of a host"}
"""Things that everybody may know of."""


def put(value: Any, identifier: str) -> Any:
    """Put an identifier in its place in a part of a request."""
    if isinstance(value, Mapping):
        return {name: put(inner, identifier) for name, inner in value.items()}
    if isinstance(value, list):
        return [put(inner, identifier) for inner in value]
    if value == TOMORROW:
        return (datetime.now(UTC) + timedelta(days=1)).isoformat()
    return value.replace(ID, identifier) if isinstance(value, str) else value


def answer_without_identifier(answer: Answer, identifier: str) -> tuple[Any, ...]:
    """Return what an answer tells, but for the identifier itself, and the one that the caller has named as its own."""
    told = (answer.body.decode(), answer.explanation, answer.remedy)
    plain = [re.sub("(agtp agent renew )[0-9a-f]{64}", rf"\1{ID}", text).replace(identifier, ID) for text in told]
    names = tuple(sorted(name.lower() for name, _ in answer.headers.fields))
    return answer.status, answer.reason, *plain[1:], len(plain[0]), names


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PrivateHost, Mapping[str, str]]]:
    host = PrivateHost(tmp_path_factory.mktemp("private"))
    yield host, host.things()
    host.close()


def ask(host: PrivateHost, who: str, probe: Probe, identifier: str) -> tuple[Any, ...]:
    """Return what a caller is told of an identifier."""
    headers = put(probe.headers, identifier)
    answer = host.callers[who](
        probe.method, put(probe.path, identifier), given=put(probe.given, identifier), headers=headers
    )
    return answer_without_identifier(answer, identifier)


def test_what_is_not_the_callers_answers_as_what_is_not_there(
    there: tuple[PrivateHost, Mapping[str, str]],
) -> None:
    """Of every method that takes an identifier, for nobody, a claimed name, a front's client and another agent."""
    host, things = there
    found: dict[tuple[str, str, str], tuple[Any, Any]] = {}
    for probe in PROBES:
        for who in CALLERS:
            if who in VISIBLE.get((probe.method, probe.thing), ()):
                continue
            unknown = ask(host, who, probe, strange(things[probe.thing]))
            known = ask(host, who, probe, things[probe.thing])
            if known != unknown:
                found[probe.label.rpartition(":")[0], probe.thing, who] = known, unknown
    told = {place: answers for place, answers in found.items() if place not in DIFFERS and place[1] not in PUBLISHED}
    assert told == {}, "\n".join(f"{place}:\n  {a}\n  {b}" for place, (a, b) in told.items())
    assert [place for place in DIFFERS if place not in found] == [], "rows that differ no more"


NAMED: tuple[tuple[str, str, Mapping[str, Any], Mapping[str, str]], ...] = (
    ("QUERY", "/secrets", {}, {}),
    ("QUERY", "/secrets", {}, {"Authority-Scope": "documents:query"}),
    ("QUERY", "/secrets", {}, {"Authority-Scope": "not a scope!"}),
    ("QUERY", "/secrets", {}, {"Delegation-Token": "x.y.z"}),
    ("QUERY", "/secrets", {}, {"Contract-Synthesized": "syn-" + "0" * 32}),
    ("BOOK", "/room", {"guest": "Ann"}, {"Allow-RCNS": "true"}),
    ("BOOK", "/nowhere", {"guest": "Ann"}, {"Allow-RCNS": "true"}),
    ("RESERVE", "/desk", {"guest": "x"}, {}),
    ("RESERVE", "/desk", {"wrong": "x"}, {}),
    ("REMOVE", "/file", {"name": "a"}, {"Idempotency-Key": "k"}),
    ("ANNOTATE", "/nowhere", {}, {}),
    ("QUERY", "/nowhere", {}, {}),
    ("NOTHING", "/", {}, {}),
    ("EXECUTE", "/", TOOL, {}),
    ("EXECUTE", "/", {"action": "mcp.tools.list"}, {}),
    ("EXECUTE", "/mcp/files", TOOL, {}),
    ("NOTIFY", "/", {"recipient": "operator", "content": {"a": 1}}, {}),
    ("PURCHASE", "/", {}, {}),
    ("FETCH", "/", {"resource_id": "contracts/none"}, {}),
    ("SEARCH", "/", {"query": "*"}, {}),
)
"""What takes more than a name in a header, or is not there."""

OPEN: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("DISCOVER", "/methods"): {},
    ("DESCRIBE", "/"): {},
    ("QUERY", "/words"): {},
    ("INSPECT", "/"): {"target": "records"},
    ("REVOKE", "/"): {"agent_id": "0" * 64, "reason": "x"},
}
"""
What is open to callers that prove nothing, with its input: there an unknown name is told from a known one.

AGTP-159 demands 401 of an Agent-ID that no agent has. A known one is answered as a caller without a name is.
"""


UNKNOWN = "This host knows no agent with that Agent-ID."
ANEW = ("issued_at", "response_id", "request_hash", "result_hash", "sequence", "previous_audit_id")
"""Members that each record has anew."""


def named(host: PrivateHost, agent_id: str, probe: tuple[str, str, Mapping[str, Any], Mapping[str, str]]) -> Any:
    """Return what a stranger is told that names an agent, and the record of it but for what every record has anew."""
    method, path, given, fields = probe
    caller = replace(host.named, agent=replace(host.alice.agent, agent_id=agent_id))
    connection = host._connection_of("header")
    answer = host.call(method, path, given, caller=caller, connection=connection, headers=fields)
    record = json.loads(b64decode(str(answer.headers.get("attribution-record")).split(".")[1] + "=="))
    kept = {name: value for name, value in record.items() if name not in ANEW}
    return *answer_without_identifier(answer, agent_id), json.dumps(kept, sort_keys=True).replace(agent_id, ID)


def test_a_stranger_does_not_learn_whether_an_agent_is_known(
    there: tuple[PrivateHost, Mapping[str, str]],
) -> None:
    """An Agent-ID in a header gets the answer and the record of any other, wherever a header is not enough."""
    host, things = there
    told = {}
    for probe in NAMED:
        unknown, known = named(host, secrets.token_hex(32), probe), named(host, things["agent"], probe)
        if unknown != known:
            told[probe[:2]] = unknown, known
        assert unknown[0] != 200, probe
    assert told == {}, "\n".join(f"{place}:\n  {a}\n  {b}" for place, (a, b) in told.items())


def test_what_is_open_to_names_refuses_an_unknown_one(there: tuple[PrivateHost, Mapping[str, str]]) -> None:
    """The control, and the one difference: see :data:`OPEN`."""
    host, things = there
    for (method, path), given in OPEN.items():
        unknown, known = (named(host, name, (method, path, given, {})) for name in ("0" * 64, things["agent"]))
        assert unknown[:3] == (401, "agent-unauthenticated", UNKNOWN), (method, path)
        assert known[2] != UNKNOWN


def test_a_stopped_agent_that_a_stranger_names_is_told_where_a_name_is_enough(tmp_path: Path) -> None:
    """Elsewhere the answer is that to any name; the agent itself is always told."""
    host = PrivateHost(tmp_path)
    host.core.services.evidence.states.apply(
        host.bob.agent_id,
        StateRow(status="suspended", since="2026-01-01T00:00:00Z", reason=None, successor=None, deadline=None),
    )
    for probe in NAMED:
        assert named(host, host.bob.agent_id, probe) == named(host, secrets.token_hex(32), probe), probe
    assert named(host, host.bob.agent_id, ("QUERY", "/words", {}, {}))[:2] == (503, "agent-suspended")
    assert host.by_bob("QUERY", "/secrets").status == 503
    host.close()


def test_an_agent_that_is_not_hosted_is_told_of_nowhere(tmp_path: Path) -> None:
    """Also where hosted agents are disclosed to everybody: who calls here is no other caller's matter."""
    host = PrivateHost(tmp_path, disclosure="public")
    things = host.things()
    found = {}
    for probe in PROBES:
        if probe.thing != "agent":
            continue
        for who in CALLERS:
            place = probe.label.rpartition(":")[0], probe.thing, who
            told = [ask(host, who, probe, name) for name in (strange(things["agent"]), things["agent"])]
            if told[0] != told[1] and place not in DIFFERS:
                found[place] = told
    host.close()
    assert found == {}, "\n".join(f"{place}:\n  {a}\n  {b}" for place, (a, b) in found.items())


def test_its_owner_is_told(there: tuple[PrivateHost, Mapping[str, str]]) -> None:
    """The control: what the table compares is there, and alice's answers differ from those about nothing."""
    host, things = there
    for probe in (
        *each(("approval",), "CONFIRM", CONFIRMED),
        *each(("approval",), "QUERY", {"id": ID}, "/approvals"),
        *inspect("audit", "audit_id", "record"),
        *inspect("workflow", "workflow_id", "workflow"),
        *inspect("contract", "synthesis_id", "contract"),
        *inspect("rcns-attempt", "attempt_id", "attempt"),
        Probe("suspended session", "QUERY", "/words", {}, {"Session-ID": ID}),
        Probe("suspended task", "QUERY", "/words", {}, {"Task-ID": ID}),
        Probe("stopped task", "QUERY", "/words", {}, {"Task-ID": ID}),
        Probe("proposal", "QUERY", f"/proposals/{ID}"),
        *each(("item",), "FETCH", {"resource_id": ID}),
        Probe("card", "QUERY", f"/cards/{ID}"),
        *each(("monitor", "alert", "connection", "grant", "submission"), "CANCEL", {"target_id": ID}),
    ):
        unknown = ask(host, "alice", probe, strange(things[probe.thing]))
        assert ask(host, "alice", probe, things[probe.thing]) != unknown, probe.label


def test_who_may_call_the_tools_of_a_server_is_told_what_one_of_them_asks_for(
    there: tuple[PrivateHost, Mapping[str, str]],
) -> None:
    """A rule of its own makes a tool 455 for callers of the other tools: they are told the scope to ask for."""
    host, _ = there
    carol = host.agent("carol", scopes=("mcp:tools:execute",))

    def call(name: str) -> Answer:
        return host.call("EXECUTE", "/", {**TOOL, "payload": {"tool": f"files.{name}"}}, caller=carol)

    ruled, unknown = call("shelve"), call("nothing")
    assert (ruled.status, ruled.document["missing_scopes"]) == (455, ["orders:write"])
    assert (unknown.status, unknown.reason) == (422, "unknown-tool")
    unsure = host.by_header("EXECUTE", given={**TOOL, "payload": {"tool": "files.nothing"}})
    assert (unsure.status, unsure.reason) == (401, "agent-unauthenticated"), "as every tool of the server"


BY_ONE_HELPER = frozenset(
    {
        *(Reason.TARGET_UNKNOWN, Reason.RECORD_NOT_FOUND, Reason.SESSION_UNKNOWN, Reason.SUSPENSION_UNKNOWN),
        *(Reason.WORKFLOW_UNKNOWN, Reason.DELEGATION_NOT_FOUND, Reason.MONITOR_UNKNOWN, Reason.RETRY_UNKNOWN),
        *(Reason.CONTRACT_UNKNOWN, Reason.ATTEMPT_UNKNOWN, Reason.PROPOSAL_UNKNOWN, Reason.NEGOTIATION_UNKNOWN),
        *(Reason.ENDPOINT_UNKNOWN, Reason.MONITOR_TARGET_UNKNOWN, Reason.CART_QUOTE_UNKNOWN),
        *(Reason.CARD_UNKNOWN, Reason.UNKNOWN_RUN, Reason.UNKNOWN_SESSION, Reason.UNKNOWN_CONTEXT),
        *(Reason.UNKNOWN_TASK, Reason.UNKNOWN_MCP_SERVER),
    }
)
"""Reasons for which a thing that is there, and not the caller's, is refused."""


def test_such_refusals_are_made_by_one_helper() -> None:
    """
    Nothing of the thing itself can be in them: ``agtphost.errors.not_found`` takes nothing of it.

    ``NamingRefusal`` neither: it names what the caller may call.
    """
    elsewhere = []
    names = {reason.name for reason in BY_ONE_HELPER}
    made = set()
    for path in sorted((ROOT / "agtphost").rglob("*.py")):
        source = path.read_text()
        if not any(name in source for name in names):
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            reason = node.args[0]
            if isinstance(reason, ast.Attribute) and reason.attr in names:
                if node.func.id == "not_found":
                    made.add(reason.attr)
                elif node.func.id.endswith("Refusal") and node.func.id != "NamingRefusal":
                    elsewhere.append(f"{path.relative_to(ROOT)}:{node.lineno} {reason.attr}")
    assert elsewhere == []
    assert made == names
