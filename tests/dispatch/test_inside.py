"""What gates need not look at again of calls inside of calls: never anything that would be decided otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agtphost.dispatch import invocation
from agtphost.dispatch.gates import identity
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.identity.peer import Peer
from tests.dispatch.hosts import DispatchHost, certificate, document, payload
from tests.dispatch.test_gate_cache import AUTHORITY, CHANGES, LINK, another_caller, narrow, two_hosted

CALLS = 5
"""That are made in the course of one."""


class Calling:
    """A host whose ``QUERY /words`` calls ``RESERVE /desk``, and says what came of it each time; one connection."""

    def __init__(self) -> None:
        self.host = DispatchHost(self._answer)
        self.peer = Peer(address="127.0.0.1", certificate=certificate(links=(LINK,), authorities=(AUTHORITY,)))
        self.before: Callable[[int], object] = lambda number: None
        self.tasks: list[str | None] = []

    def _answer(self, context: EndpointContext) -> Any:
        if context.method == "RESERVE":
            self.tasks.append(context.task_id)
            return {}
        return self._calls(context)

    async def _calls(self, context: EndpointContext) -> Any:
        found = []
        for number in range(CALLS):
            self.before(number)
            try:
                await context.invoke("RESERVE", "/desk", {"text": "x"})
                found.append((200, ""))
            except Refusal as refusal:
                found.append((int(refusal.status), str(refusal.reason)))
        return {"found": found}

    def ask(self, peer: Peer | None = None, **fields: str) -> list[tuple[int, str]]:
        """What the inner calls came to."""
        answer = self.host.ask("QUERY", "/words", {}, peer=peer or self.peer, headers=fields)
        assert answer.status == 200, document(answer)
        return [tuple(each) for each in document(answer)["result"]["found"]]

    def looked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Whom the gate of callers looks at from now on, by the method that they call."""
        seen: list[str] = []
        check = identity.CallerGate.check

        def saw(gate: identity.CallerGate, exchange: Any) -> Any:
            seen.append(exchange.request.method)
            return check(gate, exchange)

        for gate in self.host.gates:
            if isinstance(gate, identity.CallerGate):
                monkeypatch.setattr(type(gate), "check", saw)
        self.host.rewire()
        return seen


GOOD = [(200, "")] * CALLS


def test_the_gates_in_front_look_at_two_of_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first, and at the second, of which it is learned; then at none, of the next requests neither."""
    calling = Calling()
    seen = calling.looked(monkeypatch)
    for number in range(3):
        assert calling.ask(**{"Task-ID": f"t-{number}"}) == GOOD
    assert seen.count("QUERY") == 3 and seen.count("RESERVE") == 2
    assert calling.tasks == [f"t-{number}" for number in range(3) for _ in range(CALLS)]


EXPECTED = {**CHANGES, another_caller: (262, "scope-claim-invalid")}
"""The request was made with scopes that its caller does not have any more, and so are its calls."""


@pytest.mark.parametrize("change", EXPECTED, ids=lambda change: change.__name__)
def test_what_changes_counts_for_the_next_call_inside(change: Callable[[DispatchHost], None]) -> None:
    """In the middle of a request whose calls were all alike, and passed."""
    calling = Calling()
    calling.ask()
    calling.before = lambda number: number == 2 and change(calling.host)
    answer = calling.host.ask("QUERY", "/words", {}, peer=calling.peer)
    if answer.status == 200:
        found = [tuple(each) for each in document(answer)["result"]["found"]]
        assert found == [*GOOD[:2], *[EXPECTED[change]] * 3]
    else:
        # Who was stopped, is told nothing more of the request as a whole.
        assert (int(answer.status), document(answer)["reason"]) == EXPECTED[change]
    assert len(calling.tasks) == CALLS + 2, "nothing behind the gates was called"


@pytest.mark.parametrize("change", EXPECTED, ids=lambda change: change.__name__)
def test_without_what_is_kept_the_same_is_answered(
    change: Callable[[DispatchHost], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every gate looks at every call, and what is expected above is what they find."""
    monkeypatch.setattr(invocation._Inside, "like", lambda inside, head, lasting: head)
    monkeypatch.setattr(invocation, "MOST_HEADS", 0)
    test_what_changes_counts_for_the_next_call_inside(change)


def test_the_control_without_conditions_would_let_it_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gate forgets to say what its verdict rests on, who was narrowed calls on."""
    monkeypatch.setattr(identity.CallerGate, "conditions", lambda self, exchange: ())
    calling = Calling()
    calling.ask()
    calling.before = lambda number: number == 2 and narrow(calling.host)
    assert calling.ask() == GOOD


def test_other_fields_and_other_peers_have_nothing_in_common() -> None:
    """Fewer scopes are fewer scopes; who shows no certificate is nobody; the addressee may become another one."""
    calling = Calling()
    for _ in range(3):
        assert calling.ask() == GOOD
    fewer = calling.ask(**{"Authority-Scope": "documents:query"})
    assert fewer == [(262, "scope-required")] * CALLS
    assert calling.ask() == GOOD
    copied = replace(calling.peer, certificate=None)
    assert copied.inside is None and calling.peer.inside is not None
    assert calling.host.ask("QUERY", "/words", {}, peer=copied).status == 401
    two_hosted(calling.host)
    calling.ask()
    assert payload(calling.host, -2)["agent_id"] == ""


def test_what_is_kept_of_one_peer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest few kinds, however many there were; a peer that stands for another connection has its own."""
    monkeypatch.setattr(invocation, "MOST_KINDS", 2)
    calling = Calling()
    for number in range(5):
        calling.ask(**{"Authority-Scope": ("booking:desk", "booking:*", "documents:query,booking:desk")[number % 3]})
    inside: Any = calling.peer.inside
    assert len(inside._heads) == 2
    calling.peer.link = object()
    calling.ask()
    assert calling.peer.inside is not inside
