"""Callers who only name an agent, and who try identifiers: what an agent has is neither touched nor told."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.held import TOOL, needs_approval
from tests.attacks.site import amend
from tests.attacks.strikes import agent_of, said, turns
from tests.system.raw_link import Answer, RawLink, client_context, request

CONNECTIONS, EACH = 6, 36
"""216 sessions, each address's few enough that no answer is held back: 200 of an agent are remembered."""


def answered(link: RawLink, octets: bytes) -> Answer:
    """The answer to one request."""
    link.send(octets)
    answer = said(link)
    assert answer is not None, "the host closed the connection"
    assert answer.status < 500, (answer.status, answer.reason)
    return answer


def sessions(target: Target, seconds: float) -> None:
    """More sessions than an agent may have, in its name: it loses none of its own, and may use any of them itself."""
    named, mark = agent_of(target, "demo"), secrets.token_hex(8)
    own, taken = f"own-{mark}", f"taken-{mark}"
    stranger = client_context(target, identified=False)
    with RawLink(target, context=client_context(target, agent="demo"), source="127.0.3.1") as agent:
        assert answered(agent, request("ECHO", "/text", {"text": "x"}, Session_ID=own)).status == 200
        for number in range(CONNECTIONS):
            with RawLink(target, context=stranger, source=f"127.0.4.{number + 1}") as link:
                fields = {"Agent_ID": named}
                for each in range(EACH):
                    link.send(request("DISCOVER", "/methods", Session_ID=f"{number}-{each}-{mark}", **fields))
                link.send(request("DISCOVER", "/methods", Session_ID=own, **fields))
                link.send(request("DISCOVER", "/methods", Session_ID=taken, **fields))
                for _ in range(EACH + 2):
                    answer = said(link)
                    assert answer is not None and answer.status in (200, 429), answer
        assert answered(agent, request("ECHO", "/text", {"text": "x"}, Session_ID=taken)).status == 200, "it is barred"
        stopped = answered(agent, request("SUSPEND", "/", {"session_id": own}))
        assert stopped.status == 200, f"its session was evicted: {stopped.reason}"
        given = {"workflow_id": own, "resumption_nonce": stopped.json()["result"]["resumption_nonce"]}
        assert answered(agent, request("RESUME", "/", given)).status == 200


def decisions(target: Target, seconds: float) -> None:
    """What would be decided about an agent, asked in its name: the answer is that about an agent nobody knows."""
    named = agent_of(target, "demo")
    calls = (("ECHO", "/text"), ("EXECUTE", "/"), ("REVOKE", "/"), ("NOTHING", "/at-all"))
    with RawLink(target, context=client_context(target, identified=False), source="127.0.3.2") as link:
        answered(link, request("DISCOVER", "/methods", Agent_ID=named))  # The first answer of a connection greets.
        for turn in turns(seconds, 12):
            method, path = calls[turn % len(calls)]
            told = set()
            for about in (named, secrets.token_hex(32)):
                asked = {"target": "decision", "agent_id": about, "method": method, "path": path}
                answer = answered(link, request("INSPECT", "/", asked, Agent_ID=named))
                told.add(shape(answer, about))
            assert len(told) == 1 and answer.status in (401, 429), told


def scopes(target: Target, seconds: float) -> None:
    """What needs scopes, asked in an agent's name with ever other claims: the answer tells nothing of what it has."""
    named = agent_of(target, "demo")
    calls = (("QUERY", "/library/9780140449136", None), ("BOOK", "/room", {"room": "1"}))
    claims: tuple[dict[str, str], ...] = (
        *({}, {"Authority-Scope": "documents:query"}, {"Authority-Scope": "booking:room"}),
        *({"Authority-Scope": "unknown:scope"}, {"Authority-Scope": "booking:room, documents:query"}),
    )
    with RawLink(target, context=client_context(target, identified=False), source="127.0.3.7") as link:
        answered(link, request("DISCOVER", "/methods", Agent_ID=named))  # The first answer of a connection greets.
        for turn in turns(seconds, 6):
            method, path, given = calls[turn % len(calls)]
            told = set()
            for claim in claims:
                answer = answered(link, request(method, path, given, Agent_ID=named, **claim))
                # Which refusals share a record, and so have other fields, depends on how many there were before.
                told.add((answer.status, answer.reason))
            assert told <= {(401, "agent-unauthenticated"), (429, "rate-limited")}, told


def shape(answer: Answer, *named: str) -> tuple[Any, ...]:
    """
    What an answer tells, but for what the caller named itself: status, reason, length and the names of its fields.

    `Audit-Summary` says only that refusals became too many for a record each.

    :param named: identifiers in the request; an answer may repeat them.
    """
    body = answer.body.decode()
    for identifier in named:
        body = body.replace(identifier, "")
    return answer.status, answer.reason, len(body), tuple(sorted({*answer.headers} - {"audit-summary"}))


def with_things(folder: Path) -> None:
    """Calls that wait for a person, and methods that name agents as things."""
    needs_approval(folder)
    amend(folder, "methods", 'standard = ["FETCH", "LINK", "EMBED"]')


def strange(identifier: str) -> str:
    """Another identifier of the same form."""
    changed = re.sub(r"[0-9a-f]{8,}", lambda found: secrets.token_hex(32)[: len(found.group())], identifier)
    head, dot, rest = identifier.rpartition(".")
    return changed if changed != identifier else head + dot + secrets.token_hex(32)[: len(rest)]


def probes(things: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """What is there, and what asks for it by its identifier."""
    for name in ("approval", "escalation", "notification", "record", "suspended"):
        yield things[name], lambda key: ("CONFIRM", "/", {"target_id": key, "status": "accepted"}, {})
    yield things["approval"], lambda key: ("QUERY", "/approvals", {"id": key}, {})
    yield things["escalation"], lambda key: ("QUERY", "/escalations", {"escalation_id": key}, {})
    yield things["suspended"], lambda key: ("RESUME", "/", {"workflow_id": key, "resumption_nonce": "x" * 22}, {})
    yield things["suspended"], lambda key: ("ECHO", "/text", {"text": "x"}, {"Task_ID": key})
    yield things["record"], lambda key: ("INSPECT", "/", {"target": "audit", "audit_id": key}, {})
    yield things["agent"], lambda key: ("INSPECT", "/", {"target": "chain", "agent_id": key}, {})
    yield things["agent"], lambda key: ("QUERY", "/grants", {"agent": key}, {})
    yield things["agent"], lambda key: ("FETCH", "/", {"resource_id": key}, {})
    yield things["agent"], lambda key: ("LINK", "/", {"source": key, "target": key, "relationship": "same"}, {})
    yield things["agent"], lambda key: ("EMBED", "/", {"source": key, "target": key, "binding": "b"}, {})
    yield things["agent"], lambda key: ("REVOKE", "/", {"agent_id": key, "reason": "x"}, {})
    yield "files.read_file", lambda key: ("EXECUTE", "/", {**TOOL, "payload": {"tool": key, "arguments": {}}}, {})


def made(link: RawLink, agent_id: str) -> dict[str, str]:
    """One of each, of the agent at the other end."""
    mark = secrets.token_hex(8)
    read = answered(link, request("ECHO", "/text", {"text": "x"}))
    call = {**TOOL, "payload": {"tool": "files.delete_note", "arguments": {"name": mark}}}
    waits = answered(link, request("EXECUTE", "/", call))
    assert waits.reason == "approval-required", (waits.status, waits.reason)
    asked = {"task_id": f"task-{mark}", "reason": "scope_limit", "context": {}}
    escalated = answered(link, request("ESCALATE", "/", asked))
    sent = answered(link, request("NOTIFY", "/", {"recipient": agent_id, "content": {"text": mark}}))
    stopped = answered(link, request("SUSPEND", "/", {"task_id": f"stopped-{mark}"}))
    assert (escalated.status, sent.status, stopped.status) == (202, 202, 200)
    return {
        "agent": agent_id,
        "record": read.audit_id,
        "approval": waits.json()["approval_id"],
        "escalation": escalated.json()["result"]["escalation_id"],
        "notification": sent.json()["result"]["notification_id"],
        "suspended": f"stopped-{mark}",
    }


def identifiers(target: Target, seconds: float) -> None:
    """Identifiers of another agent's approvals, records and the like, and random ones: the answers are of one kind."""
    owner = agent_of(target, "other")
    with ExitStack() as open_links:
        enter = open_links.enter_context
        own = enter(RawLink(target, context=client_context(target, agent="other"), source="127.0.3.3"))
        things = made(own, owner)
        nobody = client_context(target, identified=False)
        callers = {
            "nobody": (enter(RawLink(target, context=nobody, source="127.0.3.4")), {}),
            "header": (enter(RawLink(target, context=nobody, source="127.0.3.5")), {"Agent_ID": owner}),
            "agent": (
                enter(RawLink(target, context=client_context(target, agent="demo"), source="127.0.3.6")),
                # Whatever it may do, it claims none of what would let it decide for others or call tools.
                {"Authority_Scope": "documents:query"},
            ),
        }
        for link, fields in callers.values():
            answered(link, request("DISCOVER", "/methods", **fields))  # The first answer of a connection greets.
        for thing, ask in probes(things):
            for who, (link, fields) in callers.items():
                told = set()
                for key in (thing, strange(thing)):
                    method, path, body, more = ask(key)
                    told.add(shape(answered(link, request(method, path, body, **fields, **more)), key, owner))
                assert len(told) == 1, (who, method, path, told)


ATTACKS = (
    Attack(
        name="sessions-of-others",
        who="stranger",
        says="Sessions in an agent's name, as many as one may have, and its own: it loses none, and is kept from none.",
        run=sessions,
    ),
    Attack(
        name="decisions-about-others",
        who="stranger",
        says="What would be decided about an agent, asked in its name: it is told nothing.",
        run=decisions,
    ),
    Attack(
        name="scopes-of-others",
        who="stranger",
        says="What needs scopes, asked in an agent's name: which scopes it has is not told.",
        run=scopes,
    ),
    Attack(
        name="identifiers-of-others",
        who="agent",
        says="Identifiers of what another agent has: each is answered as one that doesn't exist.",
        run=identifiers,
        alone=True,
        configure=with_things,
    ),
)
