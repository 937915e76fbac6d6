"""Gates of the operator's own: where they stand, what they see, and that they can only refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from agtphost.audit.drafts import Change
from agtphost.dispatch.gates.plugin import FIRST, LAST, OperatorGate, place_gates
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Overstepped
from agtphost.iagtp import IGate, IOperatorGate
from agtphost.plugin import CallView
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status
from tests.dispatch.hosts import CALLER, DispatchHost, agent, certificate, payload

GOOD = {"text": "hello"}
SECRET = "Bearer secret-token"
SECONDS = 5.0


@implementer(IOperatorGate)
class Plugin:
    """A gate that does what the test says, and remembers what it saw."""

    name = "plugin"

    def __init__(self, verdict: Callable[[CallView], Any]) -> None:
        self.seen: list[CallView] = []
        self._verdict = verdict

    def check(self, call: CallView) -> Any:
        self.seen.append(call)
        return self._verdict(call)


def host_with_gate(verdict: Callable[[CallView], Any], after: str = LAST) -> tuple[DispatchHost, Plugin]:
    host, plugin = DispatchHost(), Plugin(verdict)
    gate = OperatorGate(plugin, host.clock, SECONDS)
    assert verifyObject(IGate, gate)
    host.rewire(place_gates(host.gates, [(after, gate)]))
    return host, plugin


def refusing(view: CallView) -> None:
    raise Refusal(ForeignReason("shelf-closed", Status.FORBIDDEN), "The shelf is closed.", remedy="Come back tomorrow.")


def test_it_sees_what_was_proven_and_nothing_of_the_credentials() -> None:
    """A frozen view without header fields; None lets the call pass."""
    host, plugin = host_with_gate(lambda view: None)
    assert host.ask(body=GOOD, headers={"Authorization": SECRET}).status == 200
    (view,) = plugin.seen
    assert view.caller is not None and (view.caller.agent_id, view.path, view.input) == (CALLER, "/desk", GOOD)
    assert SECRET not in repr([getattr(view, field.name) for field in dataclasses.fields(view)])
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.scopes = frozenset({"*:*"})  # type: ignore[misc]


def test_its_refusal_is_sealed() -> None:
    """With status, reason, explanation and remedy; no handler runs."""
    host, _ = host_with_gate(refusing)
    assert host.ask(body=GOOD).status == 403
    assert (payload(host)["status"], payload(host)["reason"]) == (403, "shelf-closed")
    assert host.recorder.calls == []


def test_it_admits_nothing() -> None:
    """A caller whose scopes do not suffice is refused as ever, wherever the plugin stands."""
    for after in ("addressee and lifecycle", "claimed scopes", "schema"):
        plain = DispatchHost(caller=agent(CALLER, "caller", hosted=False))
        assert int(plain.ask(body=GOOD).status) == int(guarded_by(plain, after).ask(body=GOOD).status) == 262


def guarded_by(host: DispatchHost, after: str) -> DispatchHost:
    gate = OperatorGate(Plugin(lambda view: None), host.clock, SECONDS)
    host.rewire(place_gates(host.gates, [(after, gate)]))
    return host


def test_it_may_wait_and_not_for_ever() -> None:
    """A Deferred decides later; one that does not is 408, and is cancelled."""
    waiting: list[Deferred[None]] = []

    def later(view: CallView) -> Deferred[None]:
        waiting.append(Deferred())
        return waiting[-1]

    host, _ = host_with_gate(later)
    answers: list[Any] = []
    host.start(body=GOOD).addCallback(answers.append)
    assert answers == []
    waiting[0].callback(None)
    assert answers[0].status == 200
    late: list[Any] = []
    host.start(body=GOOD).addCallback(late.append)
    host.clock.advance(SECONDS)
    assert late[0].status == 408 and waiting[1].called


async def coroutine() -> bool:
    return True


class Faults(SynchronousTestCase):
    """What is no verdict lets nobody through, and is the operator's to read."""

    def test_a_verdict_that_is_none(self) -> None:
        """False is no refusal and True is no admission: 500."""
        for verdict in (False, True, "no", {}):
            host, _ = host_with_gate(lambda view, verdict=verdict: verdict)
            self.assertEqual(host.ask(body=GOOD).status, 500)
            self.assertEqual(host.recorder.calls, [])
            self.assertEqual(len(self.flushLoggedErrors(Overstepped)), 1)
        host, _ = host_with_gate(lambda view: coroutine())
        self.assertEqual(host.ask(body=GOOD).status, 500)
        self.assertEqual(len(self.flushLoggedErrors(Overstepped)), 1)

    def test_an_exception(self) -> None:
        """500, and nothing of it for the caller."""

        def broken(view: CallView) -> None:
            raise KeyError("the key under the mat")

        host, _ = host_with_gate(broken)
        response = host.ask(body=GOOD)
        self.assertEqual(response.status, 500)
        self.assertNotIn(b"the mat", response.body)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_a_refusal_with_more_in_it(self) -> None:
        """It writes nothing into state or record."""

        def forging(view: CallView) -> None:
            put = Change(kind="retained-agent", key="forged", value={"a": 1}, expected=0)
            raise Refusal(
                ForeignReason("no", Status.FORBIDDEN), "No.", changes=(put,), extra={"synthesis_id": "forged"}
            )

        host, _ = host_with_gate(forging)
        self.assertEqual(host.ask(body=GOOD).status, 500)
        (draft,) = host.ledger.drafts
        self.assertNotIn("forged", repr((draft.payload, draft.changes)))
        self.assertEqual(len(self.flushLoggedErrors(Overstepped)), 1)


def test_where_they_stand() -> None:
    """Behind the gate that is named, in the order given; not before the caller is known, nor after the input is."""
    gates = DispatchHost().gates
    one, two, three = (OperatorGate(Plugin(refusing), DispatchHost().clock, 1.0) for _ in range(3))
    order = place_gates(gates, [(LAST, one), (FIRST, two), (LAST, three)])
    at = [gate.name for gate in gates].index(LAST)
    assert order[at + 2] is one and order[at + 3] is three
    assert order[[gate.name for gate in gates].index(FIRST) + 1] is two
    assert [gate for gate in order if gate not in (one, two, three)] == gates
    for name in ("framing", "caller and lifecycle", "idempotency", "store", "nowhere", "operator: plugin"):
        with pytest.raises(ValueError, match="claimed scopes"):
            place_gates(gates, [(name, one)])
    assert certificate().agent_id == CALLER
