"""One answer of every kind that a target gives without side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from agtphost.conformance.access import Role
from agtphost.conformance.link import RawAnswer
from agtphost.conformance.request_bytes import request
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need

UNKNOWN_ID = "ab" * 32
"""An Agent-ID that no agent has."""


_taken: WeakKeyDictionary[Target, tuple[tuple[str, RawAnswer], ...]] = WeakKeyDictionary()


def tour(target: Target) -> tuple[tuple[str, RawAnswer], ...]:
    """Return the answers, each with a description of its request; the requests are sent only once."""
    if target not in _taken:
        _taken[target] = tuple((name, ask()) for name, ask in _stops(target))
    return _taken[target]


def _stops(target: Target) -> Iterator[tuple[str, Callable[[], RawAnswer]]]:
    yield "a list", lambda: target.ask("DISCOVER", "/agents")
    yield "a document", lambda: target.ask("DISCOVER", "/methods")
    yield "an unknown method", lambda: target.ask("FROBNICATE", "/")
    yield "a method in the path", lambda: target.ask("QUERY", "/book/room")
    yield "an unknown path", lambda: target.ask("QUERY", "/conformance/none")
    yield "a method that the path does not have", lambda: target.ask("REVOKE", "/methods")
    yield "an unknown caller", lambda: target.ask("DISCOVER", "/agents", fields=[("Agent-ID", UNKNOWN_ID)])
    yield "a malformed body", lambda: target.ask("INSPECT", "/", b"{")
    yield "an unknown target", lambda: target.ask("INSPECT", "/", {"target": "conformance"})
    yield "an unknown record", lambda: target.ask("INSPECT", "/", {"target": "audit", "audit_id": "0" * 64})
    yield (
        "an anonymous lifecycle change",
        lambda: target.ask("REVOKE", "/", {"agent_id": UNKNOWN_ID, "reason": "conformance"}, who=Role.ANONYMOUS),
    )
    yield "a reserved field", lambda: target.ask("DISCOVER", "/agents", fields=[("Delegation-Chain", "x")])
    yield "a malformed request", lambda: _send_malformed(target)
    if target.has(Need.AGENT):
        yield "an agent's list", lambda: target.as_agent("DISCOVER", "/agents")
        yield "a capability document", lambda: target.as_agent("DESCRIBE", "/")
        yield (
            "an impossible claim",
            lambda: target.as_agent("DISCOVER", "/agents", fields=[("Authority-Scope", "conformance:none")]),
        )
    if target.has(Need.ENDPOINT):
        endpoint = target.endpoint
        assert endpoint is not None
        yield "an endpoint", lambda: target.call(endpoint)
        yield "an anonymous call of an endpoint", lambda: target.call(endpoint, who=Role.ANONYMOUS)
    if target.has(Need.SCHEMA):
        checked = target.with_schema
        fault = next(checked.samples.faults(), None) if checked.samples is not None else None
        if fault is not None and fault.member not in checked.parameters:
            yield "an input that the schema refuses", lambda: target.call(checked, fault.value)


def _send_malformed(target: Target) -> RawAnswer:
    octets = request("DISCOVER", "no-slash")
    with target.link() as link:
        link.send(octets)
        answer = link.answer(octets)
    assert answer is not None
    return target.note(answer)
