"""
The largest input that each standard method takes, by what grows with it: :data:`LARGE`.

Each is as large as the bounds of ``docs/standard-methods``, ``docs/data-methods`` and ``docs/workflows`` allow, or as
the body of a request: 1 MiB, and 50,000 values, names and commas.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agtphost.identity.canonical import canonical
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.vocabulary import times
from tests.methods.standard.full import AGENTS, ITEM, SCOPES, STAMP, Full, item
from tests.methods.standard.turns import TurnHost, row
from tests.programmes import length

MIB = 1 << 20
BODY = MIB - 2_048
"""Octets of one parameter, beside the others."""

SHARE = length(8, 1)
"""The run of every day has an eighth of it."""


def rows(count: int, octets: int, **members: Any) -> list[dict[str, Any]]:
    """So many records, which come to so many octets of JSON."""
    each = max(octets // count - 60, 1)
    text = "thing of " + "word and more " * (each // 14 + 1)
    return [{"id": f"r{n}", "n": n, "text": text[:each], **members} for n in range(count)]


ROWS = rows(6_700 // SHARE, BODY // SHARE)
"""As many octets as a body may have, and nearly as many values."""

QUARTER = max(SHARE, 5)
"""SIGN and LOG take a quarter of what a body may have."""

EVENT = rows(6_700 // QUARTER, BODY // QUARTER)

NUMBERS = [{f"m{k}": (n * 31 + k * 17) % 997 for k in range(10)} for n in range(2_300 // SHARE)]

TEXT = "Mail a.b@example.com by 2026-03-01, it is 12.50 EUR. Ä " * (20_000 // SHARE)
LONG = TEXT[: 900_000 // SHARE]
READ = TEXT[: 200_000 // SHARE]
"""A text of as many characters as methods on data read."""

KEPT = "k" * (65_000 // SHARE)
"""Nearly as many octets as an item, a payload or a step may have."""

DENSE = [{"n": n} for n in range(6_500 // SHARE)]
"""The same in values."""


def deep(depth: int, inner: Any = 1) -> Any:
    """So many objects inside each other."""
    for _ in range(depth):
        inner = {"in": inner}
    return inner


def shapes(share: int) -> Mapping[str, Any]:
    """JSON of every shape that a body of 1 MiB can have, divided by so much."""
    return {
        "objects": [{}] * (49_000 // share),
        "objects with a member": [{"a": 1}] * (16_000 // share),
        "names": {f"name{n}": n for n in range(24_000 // share)},
        "numbers": [n * 977 for n in range(49_000 // share)],
        "fractions": [n / 7 for n in range(45_000 // share)],
        "depth": [deep(50)] * (480 // share),
        "one text": "x" * (BODY // share),
        "escapes": '"\\\n' * (170_000 // share),
        "letters": "äöß€😀" * (70_000 // share),
        "texts": ["ä" * 9] * (45_000 // share),
        "long names": {f"{n}{'n' * 1_000}": n for n in range(1_000 // share)},
    }


CONDITIONS: Mapping[str, Any] = {
    **{f"m{n}": {"exists": False} for n in range(20)},
    "any": [{"n": {"gte": n}} for n in range(20)],
    "not": {"text": "gone"},
    "text": {"matches": "^(thing|item) of.*(word|wood)" + "(and|or)?" * 20},
    "n": {"in": list(range(900))},
}
"""As many as there may be, of every kind."""

FEW_STEPS = "n > `5`"
EXPRESSION = " || ".join(f"n == `{n}`" for n in range(30))
"""JMESPath, of as many characters and parts as it may have."""

MANY_MEMBERS = {"type": "object", "properties": {f"member{n}": {"type": "string"} for n in range(200)}}
MODEL = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["n", "text"],
        "properties": {"text": {"type": "string", "pattern": "^thing"}, "n": {"type": "integer", "minimum": 0}},
        "anyOf": [{"required": ["gone"]}, {"required": ["id"]}],
    },
}
AGENTS_KNOWN = [f"hosted{n}" for n in range(min(AGENTS, 200))]

Given = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Large:
    """One call."""

    method: str
    given: Callable[[Any], Given]
    """Its parameters, made anew each time; what it needs is there then."""

    path: str = "/"
    statuses: Sequence[int] = (200,)
    """Any of which is its success."""

    by: str = "writer"
    headers: Callable[[Any], Mapping[str, str]] = lambda host: {}
    bound: str = ""
    """Why it is refused, where what it shows is a bound."""


def call(method: str, /, **given: Any) -> Large:
    """One that needs nothing to be there."""
    return Large(method=method, given=lambda host: given)


def made(method: str, given: Callable[[Any], Given], **more: Any) -> Large:
    """One that does."""
    return Large(method=method, given=given, **more)


def bound(method: str, why: str, /, **given: Any) -> Large:
    """One that is beyond it."""
    return Large(method=method, given=lambda host: given, bound=why)


# What some of them need


def new() -> str:
    """An identifier."""
    return f"x{secrets.token_hex(8)}"


def placed(host: Full, collection: str, data: Any, **more: Any) -> str:
    """An item of the writer's, which another process put there."""
    name = new()
    host.put(item(collection, name, host.writer, data, **more))
    return f"{collection}/{name}"


def owned(host: Full) -> str:
    """One that many have owned."""
    owners = [{"agent_id": host.other.agent_id, "since": STAMP, "reason": "r" * 900} for _ in range(498)]
    last = {"agent_id": host.writer.agent_id, "since": STAMP}
    return placed(host, "lists", {"text": KEPT}, owners=[*owners, last])


def notified(host: Full) -> str:
    """Of a notification in the writer's inbox."""
    given = {"recipient": host.writer.agent_id, "content": {"text": "t" * 16_000}}
    told: Any = host.done("NOTIFY", given, by=host.other)
    return str(told["notification_id"])


def steps(count: int, octets: int) -> list[dict[str, Any]]:
    """Of a CHAIN: so many, of so many octets together."""
    value = "v" * (octets // count - 70)
    return [{"method": "EVALUATE", "path": "/same-again", "parameters": {"value": value}} for _ in range(count)]


def workflow(host: Full, state: str, *, octets: int = 64_000, **more: Any) -> str:
    """One of the writer's, of fifty steps, each of which has given as much as is kept."""
    name, owner = f"wf-{secrets.token_hex(16)}", host.writer.agent.agent_id
    value = {
        "workflow_id": name,
        "kind": "chain",
        "agent_id": host.writer.agent_id,
        "task_id": "t",
        "definition": {"steps": steps(50, octets)},
        "on_failure": "abort",
        "authority": None,
        "created_at": STAMP,
        "state": state,
        **more,
    }
    host.put(row("workflow", name, owner, value))
    result = {"value": "v" * (32_000 // SHARE)}
    for number in range(1, 50):
        done = {"step": number, "state": "done", "status": 200, "attempt": 1, "result": result, "audit_id": "a" * 64}
        host.put(row("workflow-step", workflow_items.key_of(name, number), owner, done))
    host.put(row("workflow-step", workflow_items.key_of(name, 50), owner, {"step": 50, "state": "begun", "attempt": 1}))
    return name


def later(host: Full) -> str:
    """A workflow of the writer's that waits for its time."""
    at = times.stamp(host.seconds() + 3_000)
    return str(host.done("CHAIN", {"steps": steps(50, 64_000 // SHARE), "start_at": at})["workflow_id"])


def paused(host: Full) -> Given:
    """The same, brought to a stand."""
    name = later(host)
    told = host.done("PAUSE", {"workflow_id": name, "reason": "r" * 1_000})
    return {"workflow_id": name, "resumption_nonce": told["resumption_nonce"]}


def failed(host: Full) -> Given:
    """A call of the writer's that failed, and would not fail again."""
    task, host.broken = new(), True
    value = {"value": "v" * (16_000 // SHARE)}
    answer, _ = host.longest("QUERY", "/breaking", value, caller=host.writer, task_id=task)
    assert answer.status == 500
    host.broken = False
    return {"original_task_id": task}


def granted(host: Full) -> str:
    """A grant."""
    subject = f"hosted{len(host.given) % AGENTS}"
    host.given.append(subject)
    resource = sorted({f"QUERY /things/{secrets.token_hex(24)}" for _ in range(16)})[:14]
    given = {"subject": subject, "resource": resource, "scope": [*SCOPES[1:2], *SCOPES[3:]]}
    return str(host.done("AUTHORIZE", given)["grant_id"])


FETCHED: Mapping[str, Large] = {
    "an item": made("FETCH", lambda host: {"resource_id": placed(host, "lists", {"text": KEPT})}),
    "an item of many values": made("FETCH", lambda host: {"resource_id": placed(host, "lists", DENSE[:5_500])}),
    "an item that many owned": made("FETCH", lambda host: {"resource_id": owned(host)}),
    "all agents": call("FETCH", resource_id="/agents"),
    "a document": call("FETCH", resource_id="/agents/hosted1"),
    "a long name": bound("FETCH", "resource-unknown", resource_id="r" * 2_000),
}

FOUND: Mapping[str, Large] = {
    "by conditions": call("SEARCH", query=CONDITIONS, scope=["goods"], limit=500, sort=["-n", "name"] * 4),
    "by an expression": call("SEARCH", query=FEW_STEPS, scope=["rows", "records", "relations"], limit=500),
    "long items": call("SEARCH", query="*", scope="vastly", limit=500),
    "what was done": call("SEARCH", query="*", scope="records", limit=500),
    "all collections": call("SEARCH", query={"n": {"gt": 5}}, limit=500, offset=MIB // 2),
    "pages by conditions": made("SCAN", lambda host: {"collection": "goods", "filter": CONDITIONS, "page_size": 500}),
    "pages of long items": call("SCAN", collection="vastly", page_size=500),
    "pages of agents": call("SCAN", collection="agents", filter={"name": {"starts_with": "hosted"}}, page_size=500),
    "who does it": call("FIND", criteria=("hosted agent " * 400)[:3_990], limit=100),
    "who offers it": call("FIND", criteria={"methods": ["QUERY"] * (40_000 // SHARE)}, limit=100),
    "a hundred jobs": made("PULL", lambda host: {"source": jobs(host, 100, 2_500), "max_items": 100}),
    "long jobs": made("PULL", lambda host: {"source": jobs(host, 5, 64_000), "max_items": 100}),
}


def jobs(host: Full, count: int, octets: int) -> str:
    """So many that wait in a queue."""
    for _ in range(count):
        work = {"priority": 5, "submitted_by": host.clerk.agent_id, "came": time.time_ns() // 1_000}
        host.put(item("tasks", new(), host.clerk, {"text": "j" * octets}, work=work))
    return "tasks"


COMPUTED: Mapping[str, Large] = {
    "everything": call("ANALYZE", target=NUMBERS, explain=True),
    "correlations": call("ANALYZE", target=NUMBERS, analysis_type="correlation"),
    "a text of rows": call("ANALYZE", target="\n".join(json.dumps(each) for each in ROWS)[: BODY // SHARE]),
    "items": call("ANALYZE", target="collection:rows"),
    "conditions": call("FILTER", data=ROWS, criteria=CONDITIONS),
    "an expression": call("FILTER", data=ROWS, criteria=EXPRESSION),
    "a text as CSV": call(
        "FILTER",
        data="\n".join(json.dumps(each) for each in ROWS)[: (BODY - 50_000) // SHARE].rpartition("\n")[0],
        criteria={"n": {"gt": 2}},
        output_format="csv",
    ),
    "all items": call("FILTER", data="collection:rows", criteria={"n": {"gte": 0}}),
    "long items": call("FILTER", data="collection:vastly", criteria={"n": {"gte": 0}}),
    "sound": call("VALIDATE", target=ROWS, schema=MODEL),
    "many faults": call("VALIDATE", target=ROWS, schema={"type": "array", "items": {"required": ["gone"]}}),
    "rules": call(
        "VALIDATE",
        target=ROWS[: 1_000 // SHARE],
        schema={"rules": [{"require": {"n": {"lt": n}}, "message": "m" * 90} for n in range(100)]},
    ),
    "a schema": call("VALIDATE", target=MANY_MEMBERS, schema="json-schema"),
    "a call": call(
        "VALIDATE", target={"method": "EVALUATE", "path": "/dear", "parameters": {"rows": ROWS}}, schema="call"
    ),
    "a wrong call": call(
        "VALIDATE", target={"method": "EVALUATE", "path": "/dear", "parameters": {"lines": ROWS}}, schema="call"
    ),
    "CSV": call("TRANSFORM", source=ROWS, target_format="csv"),
    "YAML": call("TRANSFORM", source=ROWS[: 2_000 // SHARE], target_format="yaml"),
    "mapped": call("TRANSFORM", source=ROWS, target_format="jsonl", mapping={"a.b": "id", "a.c": "text", "d": "n"}),
    "dates": call("NORMALIZE", data=["31.12.2026"] * (10_000 // SHARE), type="date"),
    "numbers": call("NORMALIZE", data=["+49 30 1234567"] * (10_000 // SHARE), type="phone"),
    "by a member": call("RANK", items=ROWS, criterion="n"),
    "by weights": call("RANK", items=NUMBERS, criterion={"weights": {f"m{n}": n + 1 for n in range(10)}}),
    "by a text": call("RANK", items=ROWS, criterion={"text": "thing word more " * 120}),
    "a sum": call("CALCULATE", expression={"op": "sum", "over": "rows", "of": {"var": "n"}}, inputs={"rows": ROWS}),
    "powers": call(
        "CALCULATE",
        expression={
            "op": "sum",
            "over": "rows",
            "of": {"op": "power", "args": [{"op": "sqrt", "args": [{"var": "n"}]}, {"var": "e"}]},
        },
        inputs={"rows": ROWS[:4_000], "e": 7},
    ),
    "an object": call(
        "EVALUATE",
        target={"rows": ROWS[:1_000], **{f"m{n}": n for n in range(100)}},
        criteria=[{"name": f"m{n}", "best": 100, "worst": 0} for n in range(100)],
    ),
    "a text": call(
        "GENERATE",
        output_type="markdown",
        source={"template": "{a}-{b.c}" * 7_000, "values": {"a": "*_", "b": {"c": 5}}},
    ),
    "documentation": call(
        "GENERATE",
        output_type="html",
        source={
            "openapi": "3.1.0",
            "info": {"title": "t"},
            "paths": {f"/p{n}": {"get": {"summary": "s" * 300, "responses": {}}} for n in range(300 // SHARE)},
        },
    ),
    "an example": call("GENERATE", output_type="json", source=MANY_MEMBERS),
    "names": call("MAP", source_schema=MANY_MEMBERS, target_schema=[f"the_{n}_member" for n in range(200)]),
    "two sources": call("MERGE", sources=[ROWS[::2], ROWS[1::2]], strategy="union"),
    "fifty sources": call("MERGE", sources=[ROWS[n::50] for n in range(50)], strategy="latest"),
    "conflicts": call("MERGE", sources=[ROWS[:3_000], [{**each, "n": -1} for each in ROWS[:3_000]]], strategy="union"),
    "collections": call("MERGE", sources=["collection:rows", ROWS[:1]], strategy="union"),
    "documents": call(
        "MERGE", sources=[{f"k{n}": "v" * 20 for n in range(500 // SHARE)}] * 40, strategy="intersection"
    ),
    "a whole payload": call("SIGN", payload={"text": KEPT}),
    "a long payload": call("SIGN", payload=EVENT),
    "a whole event": call("LOG", event_type="e" * 128, data={"text": "d" * 16_000}),
    "a long event": call("LOG", event_type="e" * 128, data=EVENT),
    "a dear call": call("QUOTE", method="EVALUATE", path="/dear", parameters={"rows": ROWS}),
    **{f"{name} signed": call("SIGN", payload=shape) for name, shape in shapes(QUARTER).items()},
    **{f"{name} logged": call("LOG", event_type="e", data=shape) for name, shape in shapes(QUARTER).items()},
}

ENTERED: Mapping[str, Large] = {
    "a long item": made("REGISTER", lambda host: {"entity_type": "shelf", "data": {"id": new(), "text": KEPT}}),
    "many values": made(
        "REGISTER",
        lambda host: {
            "entity_type": "shelf",
            "data": {"text": "t", "parts": DENSE[:5_500]},
            "idempotency_key": new(),
        },
    ),
    "500 long ones": made(
        "IMPORT",
        lambda host: {"source": [{"id": new(), "text": "y" * (1_900 // SHARE)} for _ in range(500)], "target": "lists"},
    ),
    "a text of them": made(
        "IMPORT",
        lambda host: {
            "source": "\n".join(json.dumps({"id": new(), "t": "y" * (1_900 // SHARE)}) for _ in range(500)),
            "target": "lists",
            "format": "jsonl",
        },
    ),
    "500 long ones that are there": made(
        "IMPORT",
        lambda host: {
            "source": [{"id": name.partition("/")[2], "n": 1} for name in kept(host, ITEM - 100)],
            "target": "lists",
            "conflict_policy": "merge",
        },
    ),
    "500 that are there": made(
        "IMPORT",
        lambda host: {
            "source": [{"id": name.partition("/")[2], "n": 1} for name in kept(host)],
            "target": "lists",
            "conflict_policy": "merge",
        },
    ),
    "a payload": call("SUBMIT", target="tasks", payload={"text": KEPT}, callback="inbox"),
    "a payload of many values": call("SUBMIT", target="tasks", payload=DENSE[:5_500], priority=0),
    "content": call("PUBLISH", content={"text": KEPT}, channel="lists", format="f" * 128),
    "content to come": made(
        "PUBLISH",
        lambda host: {"content": DENSE[:5_500], "channel": "lists", "schedule_at": times.stamp(host.seconds() + 9_999)},
    ),
    "a relation": made(
        "LINK",
        lambda host: {
            "source": placed(host, "lists", {"text": KEPT}),
            "target": placed(host, "lists", DENSE[:5_000]),
            "relationship": "r" * 128,
            "metadata": {"text": "m" * 16_000},
        },
    ),
    "one in another": made(
        "EMBED",
        lambda host: {
            "source": placed(host, "lists", {"text": KEPT}),
            "target": placed(host, "lists", DENSE[:5_000]),
            "binding": "b" * 128,
        },
    ),
    "a remote's 4 MB": call("SYNC", resource="mirror", remote="vast"),
    "a remote's others": made("SYNC", lambda host: differing(host) | {"conflict_policy": "remote_wins"}),
    "500 to a remote": made(
        "SYNC", lambda host: differing(host) | {"conflict_policy": "local_wins", "direction": "push"}
    ),
    "500 long ones to a remote": made(
        "SYNC", lambda host: differing(host, ITEM - 100) | {"conflict_policy": "local_wins", "direction": "push"}
    ),
    "a chain of owners": made(
        "TRANSFER",
        lambda host: {
            "resource_id": owned(host),
            "from_principal": host.writer.agent_id,
            "to_principal": host.other.agent_id,
            "reason": "r" * 1_000,
        },
    ),
    "a channel": made(
        "CONNECT",
        lambda host: {
            "source": "clerk",
            "destination": "other",
            "config": {"text": "c" * 4_000},
            "ttl": cancelled(host, "connection"),
        },
    ),
    "a grant": made("AUTHORIZE", lambda host: granting(host, 300)),
}


def kept(host: Full, octets: int = 8_000) -> list[str]:
    """Five hundred of the writer's."""
    host.clear()
    return [placed(host, "lists", {"text": "l" * (octets // SHARE)}) for _ in range(500)]


def differing(host: Full, octets: int = 8_000) -> dict[str, Any]:
    """A remote that has other data under the same identifiers."""
    host.clear()
    host.same = [{"id": new(), "data": {"text": "o" * (1_000 // SHARE)}} for _ in range(500)]
    for each in host.same:
        host.put(item("mirror", each["id"], host.writer, {"text": "l" * (octets // SHARE)}))
    return {"resource": "mirror", "remote": "same"}


def cancelled(host: Full, kind: str) -> int:
    """What the writer has of a kind is called off: there may be one."""
    for each in [*host.core.services.evidence.held.items_of(kind, host.writer.agent.agent_id)]:
        if each.brief.get("state") == "open":
            host.done("CANCEL", {"target_id": each.key})
    return 3_600


def granting(host: Full, there: int) -> Given:
    """What a grant says, where there are as many as that already."""
    while len(host.given) < length(10, there):
        granted(host)
    resource = [f"QUERY /things/{secrets.token_hex(20)}" for _ in range(16)]
    return {"subject": host.other.agent_id, "resource": resource, "scope": [*SCOPES[1:2], *SCOPES[3:]], "ttl": 86_400}


def answered(**given: Any) -> Callable[[Full], Given]:
    """A call whose provider answers with much besides."""

    def ready(host: Full) -> Given:
        host.answer = {"more": ROWS * 4}
        return given

    return ready


TOLD: Mapping[str, Large] = {
    "a group": made(
        "ALERT",
        lambda host: {
            "recipient": "everybody",
            "message": "m" * 15_000,
            "severity": "critical",
            "acknowledge_by": times.stamp(host.seconds() + 9_999),
            "escalation_path": ["everybody"] * 8,
        },
        by="second",
    ),
    "a zone": call("BROADCAST", audience="zone:development", content={"text": "x" * 16_000}),
    "a list": call("BROADCAST", audience=AGENTS_KNOWN, content=DENSE[:1_400]),
    "by mail": call(
        "BROADCAST",
        audience=[f"a{n}@b.test" for n in range(length(5, 50))],
        channel="email",
        content={"text": "x" * 16_000},
    ),
    "a mail": call("SEND", recipient="a@b.test", channel="email", content={"text": KEPT}),
    "a mail of many values": call("SEND", recipient="a@b.test", channel="email", content=DENSE[:5_500]),
    "a mail that is much confirmed": made("SEND", answered(recipient="a@b.test", channel="email", content="c")),
    "a PDF and more": made("REPORT", answered(report_type="t", scope="told", recipient="operator", format="pdf")),
    "addresses": made("NORMALIZE", answered(data=["a street"] * (10_000 // SHARE), type="address")),
    "a notification": made("REPLY", lambda host: {"in_reply_to": notified(host), "content": "r" * 15_000}),
    "a report": call("REPORT", report_type="t" * 128, scope="told", recipient="everybody", format="html"),
    "a PDF": call("REPORT", report_type="t", scope="told", recipient="operator", format="pdf"),
    "what was done": call(
        "REPORT", report_type="r", scope={"records": {"method": "LOG"}}, recipient="operator", format="json"
    ),
}


CALLED: Mapping[str, Large] = {
    "fifty steps": call("CHAIN", steps=[{"method": "QUERY", "path": "/far"}] * 50),
    "long steps": made("CHAIN", lambda host: {"steps": steps(50, 65_000)}),
    "a step of many values": call(
        "CHAIN", steps=[{"method": "EVALUATE", "path": "/same-again", "parameters": {"value": [0] * 1_900}}]
    ),
    "expressions": made("CHAIN", lambda host: {"steps": handing(), "context_propagation": True}),
    "steps that hand on much": made("CHAIN", lambda host: {"steps": growing(), "context_propagation": True}),
    "a schedule": made(
        "CHAIN",
        lambda host: {"steps": steps(50, 65_000), "start_at": times.stamp(host.seconds() + 9_999)},
        statuses=(202,),
    ),
    "by itself": made("CHAIN", lambda host: {"steps": steps(50, 65_000), "background": True}, statuses=(202,)),
    "a hundred calls": call("BATCH", calls=[{"method": "QUERY", "path": "/far"}] * 100),
    "long calls": made("BATCH", lambda host: {"calls": steps(100, BODY)}),
    "long calls in turn": made("BATCH", lambda host: {"calls": steps(100, BODY), "execution_mode": "sequential"}),
    "one long call": made("BATCH", lambda host: {"calls": steps(1, BODY)}),
    "many values in calls": call(
        "BATCH",
        calls=[
            {"method": "EVALUATE", "path": "/same-again", "parameters": {"value": DENSE[: 120 // SHARE]}}
            for _ in range(100)
        ],
    ),
    "large methods": made("BATCH", lambda host: {"calls": mixed(400), "partial_success": True}),
    "large methods as steps": made("CHAIN", lambda host: {"steps": mixed(40)[:20], "on_failure": "skip"}),
    "fifty long answers": call("CHAIN", steps=[{"method": "QUERY", "path": "/much"}] * (50 // SHARE)),
    "a hundred long answers": call("BATCH", calls=[{"method": "QUERY", "path": "/much"}] * (100 // SHARE)),
    "rules": call(
        "ROUTE",
        payload={"text": KEPT[:60_000]},
        criteria=[{"when": f"n == `{n}` || a.b[{n}].c == 'x'", "to": "hosted1"} for n in range(99)]
        + [{"when": "text", "to": "hosted2"}],
        candidates=AGENTS_KNOWN[:100],
    ),
    "candidates": call(
        "ROUTE",
        payload={"text": KEPT[:60_000]},
        criteria={"tier": "gold"},
        candidates=[
            {"id": f"QUERY /things/t{n}", "tier": "gold" if n == 99 else "tin", "about": "c" * (8_000 // SHARE)}
            for n in range(100)
        ],
    ),
    "candidates of many values": call(
        "ROUTE",
        payload=["hosted word"] * (4_500 // SHARE),
        criteria={"text": ("hosted agent word " * 400)[:3_990]},
        candidates=[{"id": name, "about": [{"n": n} for n in range(100 // SHARE)]} for name in AGENTS_KNOWN[:100]],
        fallback="hosted1",
    ),
    "again": made("RETRY", failed),
    "again later": made("RETRY", lambda host: failed(host) | {"delay": 86_400}, statuses=(200, 202)),
    "a procedure": call("RUN", procedure_id="copies", input={"value": KEPT[:64_000]}),
    "a procedure of many values": call("RUN", procedure_id="copies", input={"value": DENSE[:5_500]}),
    "a procedure with many texts": call("RUN", procedure_id="copies", input={"value": ["text"] * 8_000}),
    "a procedure of much": call("RUN", procedure_id="choice"),
    "a pause": made("PAUSE", lambda host: {"workflow_id": later(host), "reason": "r" * 1_000}),
    "the end of a pause": made("RESUME", paused),
    "a checkpoint": made("RESUME", lambda host: checkpoint(host), statuses=(200, 202)),
    "a hundred agents": made("MONITOR", lambda host: watching(host)),
    "what is its own": call(
        "MONITOR",
        target={"metric": "unread_notifications"},
        events=["workflow", "escalation", "approval", "metric"],
        callback="inbox",
        threshold={"above": 5},
    ),
    "the host": call("CHECK", target="host", depth="deep"),
    "an agent": call("CHECK", target="hosted1", depth="deep"),
}

KEYED: Mapping[str, Large] = {
    "rows under a key": made("FILTER", lambda host: {"data": ROWS, "criteria": CONDITIONS}, headers=lambda host: key()),
    "records under a key": made(
        "IMPORT",
        lambda host: {"source": [{"id": new(), "text": "y" * (1_900 // SHARE)} for _ in range(500)], "target": "lists"},
        headers=lambda host: key(),
    ),
    "what fails": made(
        "QUERY",
        lambda host: {"value": ROWS, **failing(host)},
        path="/breaking",
        statuses=(500,),
        headers=lambda host: {"Task-ID": new()},
    ),
    "what is wrong": made("QUERY", lambda host: {"values": ROWS}, path="/breaking", bound="invalid-input"),
    "what a person approves": made(
        "BOOK",
        lambda host: {"value": [new(), *[n % 10 for n in range(15_000 // SHARE)]]},
        path="/approved",
        statuses=(202,),
    ),
    "what is too long to be approved": made(
        "BOOK",
        lambda host: {"value": [new(), *[n % 10 for n in range(49_000 // SHARE)]]},
        path="/approved",
        bound="too-long-to-show",
    ),
}


def key() -> Mapping[str, str]:
    """Under which a call is made once."""
    return {"Idempotency-Key": new()}


def failing(host: Full) -> Given:
    """Nothing, but it fails."""
    host.broken = True
    return {}


NUMBERS = {"status": "held", "numbers": [0.1] * 15_000}
"""As many numbers as an item takes: to hash their canonical form takes 18 ms."""

ENDED: Mapping[str, Large] = {
    "a booking": made(
        "CANCEL", lambda host: {"target_id": booked(host), "reason": "r" * 4_000, "notify_parties": True}
    ),
    "a workflow": made("CANCEL", lambda host: {"target_id": workflow(host, "interrupted"), "reason": "r" * 4_000}),
    "a schedule": made("CANCEL", lambda host: {"target_id": later(host)}),
    "a grant": made("CANCEL", lambda host: {"target_id": granted(host), "notify_parties": True}),
    "a dense item": made("CONFIRM", lambda host: {"target_id": placed(host, "lists", NUMBERS), "status": "accepted"}),
}


def booked(host: Full) -> str:
    """A booking that concerns as many as are told, whose inboxes are as full as they may be."""
    return placed(host, "lists", {"attendees": AGENTS_KNOWN[:100], "parties": AGENTS_KNOWN[100:200], "paid": 5})


def handing() -> list[dict[str, Any]]:
    """Steps whose expressions come to as many characters as those of a request may."""
    first = {"method": "EVALUATE", "path": "/same-again", "parameters": {"value": {f"m{n}": n for n in range(500)}}}
    paths = [f"=step1.value.m{n} || previous.value.{'x' * 30}" for n in range(60)]
    using = [{"method": "EVALUATE", "path": "/same-again", "parameters": {"value": paths[n::49]}} for n in range(49)]
    return [first, *using]


def growing() -> list[dict[str, Any]]:
    """Each step is handed all that the one before gave, twice."""
    first = {"method": "EVALUATE", "path": "/same-again", "parameters": {"value": KEPT[:30_000]}}
    more = {
        "method": "EVALUATE",
        "path": "/same-again",
        "parameters": {"value": ["=previous.value", "=previous.value"]},
    }
    return [first, more, more, more]


def mixed(count: int) -> list[dict[str, Any]]:
    """Calls of methods that read, each as large as there is room for in a body."""
    room = ROWS[: count // SHARE]
    given: list[tuple[str, dict[str, Any]]] = [
        ("FILTER", {"data": "collection:rows", "criteria": {"n": {"gte": 0}}}),
        ("RANK", {"items": room, "criterion": {"text": "thing word"}}),
        ("SEARCH", {"query": "*", "scope": "vastly", "limit": 500}),
        ("SCAN", {"collection": "goods", "page_size": 500}),
        ("TRANSFORM", {"source": room, "target_format": "csv"}),
        ("ANALYZE", {"target": "collection:rows"}),
        ("MERGE", {"sources": ["collection:rows", room[:1]]}),
        ("FETCH", {"resource_id": "/agents"}),
        ("FIND", {"criteria": "hosted", "limit": 100}),
        (
            "EVALUATE",
            {"target": {"n": 5}, "criteria": [{"name": f"c{n}", "member": "n", "scale": 9} for n in range(100)]},
        ),
    ]
    return [{"method": method, "path": "/", "parameters": each} for method, each in given * 3]


def checkpoint(host: Full) -> Given:
    """What became of the last step of fifty, whose others gave as much as is kept."""
    said = {"step": 50, "outcome": "done", "result": {"text": "c" * (32_000 // SHARE)}}
    return {"workflow_id": workflow(host, "interrupted"), "checkpoint": said}


def watching(host: Full) -> Given:
    """As many agents as one subscription may be of."""
    for each in [*host.core.services.evidence.held.items_of("monitor", host.writer.agent.agent_id)]:
        host.done("CANCEL", {"target_id": each.key})
    return {"target": {"agents": AGENTS_KNOWN[:100]}, "events": ["lifecycle"], "callback": "inbox", "interval": 5}


LARGE: Mapping[str, Large] = {
    f"{row.method} {name}": row
    for table in (FETCHED, FOUND, COMPUTED, ENTERED, TOLD, CALLED, KEYED, ENDED)
    for name, row in table.items()
}
"""By what the input is."""


# What an operator provides

SAID = {"in": length(5_000, 20_000)}


class Provided(TurnHost):
    """A host whose operator provides what takes a model, or a merchant: it answers as much as it is asked for."""

    def __init__(self) -> None:
        super().__init__({"methods": {"standard": "*"}, "limits": {"body": MIB}})
        anything: dict[str, Any] = {"type": "object", "additionalProperties": False}
        takes = {
            "TRANSLATE": ("content", "target_language", "source_language", "formality"),
            "EXTRACT": ("source", "schema", "confidence_threshold"),
            "PREDICT": ("input", "model_id", "confidence_floor", "explain"),
            "CLASSIFY": ("items", "taxonomy", "multi_label", "confidence_threshold"),
            "GENERATE": ("output_type", "source", "format", "length", "style"),
            "RECOMMEND": ("context", "goal", "constraints", "limit", "explain"),
        }
        for method, names in takes.items():
            schema = {**anything, "properties": {key: {} for key in names}}
            self.endpoint(method, "/", self._provided, input_schema=schema, output_schema={"type": "object"})
        self.endpoint(
            "EVALUATE",
            "/checked",
            lambda context: self.answer,
            {"value": {}},
            output_schema={"type": "object", "properties": {"value": MODEL}},
        )
        schema = {**anything, "properties": {key: {} for key in ("item", "principal_id", "amount", "payment_method")}}
        self.endpoint(
            "PURCHASE", "/", lambda context: {"order": "o", "item": context.input["item"]}, input_schema=schema
        )
        named = {"procedure_id": {"type": "string", "enum": ["p"]}, "input": {"type": "object"}}
        schema = {**anything, "properties": named, "required": ["procedure_id"]}
        self.endpoint("RUN", "/", self._provided, input_schema=schema)
        self.endpoint("QUOTE", "/cart", self._provided, {"cart": "object"})
        self.writer = self.agent("writer", scopes=SCOPES)
        self.shop = self.agent("shop", hosted=True, members={"role": "merchant"})
        self.answer: Mapping[str, Any] = {}

    def _provided(self, context: Any) -> Any:
        return self.answer

    def fingerprint(self) -> str:
        """Of the merchant's manifest."""
        answer, _ = self.longest("DESCRIBE", "/agents/shop", caller=self.writer)
        return sha256(canonical(answer.result)).hexdigest()


def answering(answer: Given, **given: Any) -> Callable[[Provided], Given]:
    """A call that is answered so."""

    def ready(host: Provided) -> Given:
        host.answer = answer
        return given

    return ready


BOUGHT = {"principal_id": "p", "amount": {"value": "1", "currency": "EUR"}}
OFFERS = [{"item": {"id": n, "price": n % 90, "category": f"c{n % 9}"}, "score": 0.5} for n in range(10_000 // SHARE)]
CODE = "\n" * (4 * MIB // SHARE)

CART = {
    "lines": [{"sku": f"s{n}", "qty": 1, "unit_price": "1.00"} for n in range(500)],
    "currency": "EUR",
}
MANY_TEXTS = [f"a{n}" for n in range(45_000 // SHARE)]
CALLED_AGAIN = "x = 1\n" * (140_000 // SHARE)

MEMBERS = MANY_MEMBERS["properties"]
LABELS = [f"thing {n}" for n in range(100)]
LABELLED = [{"label": f"thing {n}", "confidence": 0.5} for n in range(5)]

PROVIDED: Mapping[str, Large] = {
    "TRANSLATE a text": made("TRANSLATE", answering({"content": LONG}, content=LONG, target_language="de")),
    "TRANSLATE values": made("TRANSLATE", answering({"content": ROWS}, content=ROWS, target_language="de")),
    "PREDICT much": made("PREDICT", answering({"prediction": DENSE * 8, "confidence": 0.9}, input=ROWS)),
    "PREDICT many": made(
        "PREDICT",
        answering(
            {"predictions": [{"confidence": n % 9 / 10} for n in range(100_000 // SHARE)]},
            input=1,
            confidence_floor=0.5,
        ),
    ),
    "EXTRACT": made(
        "EXTRACT",
        answering(
            {"data": dict.fromkeys(MEMBERS, READ[:300]), "confidence": dict.fromkeys(MEMBERS, 0.5)},
            source=READ,
            schema=MANY_MEMBERS,
        ),
    ),
    "CLASSIFY": made(
        "CLASSIFY",
        answering({"items": [{"labels": LABELLED}] * len(ROWS[:4_000])}, items=ROWS[:4_000], taxonomy=LABELS),
    ),
    "GENERATE a text": made("GENERATE", answering({"content": LONG * 4}, output_type="text", source=ROWS)),
    "GENERATE code": made("GENERATE", answering({"content": f"a{CODE}b"}, output_type="code")),
    "GENERATE many codes": made(
        "GENERATE", answering({f"f{n}": f"{n}" + "x = 1 \n" * (10_000 // SHARE) for n in range(50)}, output_type="code")
    ),
    "RECOMMEND": made(
        "RECOMMEND",
        answering(
            {"recommendations": OFFERS},
            context=ROWS[:2_000],
            goal="rest",
            constraints={
                "budget": 50,
                "exclusions": [f"x{n}" for n in range(1_000)],
                **{f"m{n}": {"exists": False} for n in range(60)},
                "category": [f"c{n}" for n in range(900)],
            },
        ),
    ),
    "RUN with many texts": made(
        "RUN", answering({}, procedure_id="p", input={"value": [f"a{n}" for n in range(45_000 // SHARE)]})
    ),
    "RUN with code": made("RUN", answering({}, procedure_id="p", input={"value": CALLED_AGAIN})),
    "QUOTE a cart": made("QUOTE", answering({"cart": CART}, cart=CART), path="/agents/shop/cart"),
    "PURCHASE a cart": made(
        "PURCHASE",
        answering({}, item=CART, **BOUGHT),
        path="/agents/shop/",
        headers=lambda host: {
            "Merchant-ID": host.shop.agent_id,
            "Merchant-Manifest-Fingerprint": host.fingerprint(),
        },
    ),
    "PURCHASE": made(
        "PURCHASE",
        answering({}, item=ROWS, **BOUGHT),
        path="/agents/shop/",
        headers=lambda host: {"Merchant-ID": host.shop.agent_id, "Merchant-Manifest-Fingerprint": host.fingerprint()},
    ),
    **{
        f"{name} as an answer": made("EVALUATE", answering({"value": [], "more": shape}, value=1), path="/checked")
        for name, shape in shapes(SHARE).items()
    },
    "an answer that is checked": made("EVALUATE", answering({"value": ROWS}, value=1), path="/checked"),
    "a long answer that is checked": made("EVALUATE", answering({"value": ROWS * 4}, value=1), path="/checked"),
    "an answer that is wrong": made(
        "EVALUATE", answering({"value": [*ROWS, {}]}, value=1), path="/checked", bound="invalid-output"
    ),
}
