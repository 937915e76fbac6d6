"""What a gate need not look at again of a connection's next request: never anything that would be decided otherwise."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred

from agtphost.contract.grants import Grant
from agtphost.dispatch.gate_cache import GateChain
from agtphost.dispatch.gates import identity
from agtphost.identity.authorities import Mandate, Mandates
from agtphost.identity.peer import Peer, Withdrawable
from agtphost.identity.revocation import RevokedLinks
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Common
from tests.dispatch.hosts import CALLER, HOSTED, DispatchHost, agent, certificate, document, payload
from tests.memory import request_of
from tests.programmes import seed_of_chance

LINK = "0" * 32 + ":1"
AUTHORITY = "d" * 64
GOOD = {"text": "x"}

Kind = tuple[str, str, tuple[tuple[str, str], ...]]

RESERVE: Kind = ("RESERVE", "/desk", (("Agent-ID", CALLER),))
KINDS: tuple[Kind, ...] = (
    RESERVE,
    ("RESERVE", "/agents/librarian/desk", ()),
    ("RESERVE", "/desk", (("Authority-Scope", "booking:desk"),)),
    ("RESERVE", "/desk", (("Authority-Scope", "documents:query"),)),
    ("QUERY", "/words", (("Agent-ID", CALLER), ("Budget-Limit", "USD=1"))),
    ("QUERY", "/public", ()),
    ("DESCRIBE", "/", (("Agent-ID", CALLER),)),
    ("EXECUTE", "/", (("Agent-ID", CALLER),)),
    ("PURCHASE", "/", (("Agent-ID", CALLER),)),
    ("RESERVE", "/nowhere", (("Agent-ID", CALLER),)),
)


class Connected:
    """
    One connection to a host in memory.

    :param learning: whether its heads have something in common, as those that the wire yields do.
    :param fronted: whether it is a front's client instead, each of whose requests has a peer of its own.
    """

    def __init__(self, host: DispatchHost, *, learning: bool, proven: bool = True, fronted: bool = False) -> None:
        self.host = host
        shown = certificate(links=(LINK,), authorities=(AUTHORITY,)) if proven else None
        http = {"surface": "mcp", "client": "c", "method": "POST"} if fronted else None
        self.peer = Peer(address="127.0.0.1", transport="http" if fronted else "agtp", certificate=shown, http=http)
        self._learning = learning
        self._commons: dict[Kind, Common] = {}
        self._heads: dict[tuple[Kind, str], Request] = {}

    def ask(self, kind: Kind = RESERVE, task_id: str = "t-1", body: Any = GOOD) -> Response:
        method, path, fields = kind
        if (kind, task_id) not in self._heads:
            made = request_of(method, path, GOOD, {**dict(fields), "Task-ID": task_id})
            if self._learning:
                made.headers.common = self._commons.setdefault(kind, Common())
            self._heads[kind, task_id] = made
        head = self._heads[kind, task_id]
        octets = request_of(method, path, body).body
        answers: list[Response] = []
        peer = self.peer
        if peer.http is not None:
            peer = replace(peer, http={**peer.http}, link=Withdrawable(client="c"), leaving=set())
        coming = self.host.dispatcher.dispatch(replace(head, body=octets), peer)
        Deferred.fromCoroutine(coming).addCallback(answers.append)  # type: ignore[arg-type]
        while not answers:
            self.host.clock.advance(0.1)
        return answers[0]


def host_of(settings: Mapping[str, Any] | None = None, **options: Any) -> DispatchHost:
    return DispatchHost(lambda context: {"task": context.task_id}, settings, **options)


def gate_of(host: DispatchHost, kind: type) -> Any:
    return next(gate for gate in host.gates if isinstance(gate, kind))


def suspend(host: DispatchHost) -> None:
    host.put(CALLER, "suspended")


def suspend_addressee(host: DispatchHost) -> None:
    host.put(HOSTED, "suspended")


def deprecate(host: DispatchHost) -> None:
    host.put(HOSTED, "deprecated", successor="f" * 64)


def narrow(host: DispatchHost) -> None:
    grant = Grant(agent_id=CALLER, allow="QUERY /words", until=None, by="operator", at="")
    host.core.services.rights.configure([grant])


def revoke(host: DispatchHost) -> None:
    host.core.services.loaded.tls.revocations.adopt(RevokedLinks(links=frozenset({LINK})))


def outdate(host: DispatchHost) -> None:
    host.core.services.loaded.tls.revocations.adopt(RevokedLinks(until=1.0), required=True)


def mandate(host: DispatchHost) -> None:
    nobody = Mandate(zones=frozenset({"zone:elsewhere"}), issuers=frozenset())
    host.core.services.loaded.tls.authorities.adopt(Mandates(by_authority={AUTHORITY: nobody}))


def another_caller(host: DispatchHost) -> None:
    host.directory._by_id[CALLER] = agent(CALLER, "caller", hosted=False, scopes=frozenset({"documents:query"}))


def nobody(host: DispatchHost) -> None:
    del host.directory._by_id[CALLER]


def two_hosted(host: DispatchHost) -> None:
    host.directory.admit([agent("9" * 64, "another", hosted=True)])


CHANGES: Mapping[Callable[[DispatchHost], None], tuple[int, str]] = {
    suspend: (503, "agent-suspended"),
    suspend_addressee: (503, "agent-suspended"),
    narrow: (262, "grant-required"),
    revoke: (401, "certificate-revoked"),
    outdate: (401, "agent-unauthenticated"),
    mandate: (401, "certificate-authority-mismatch"),
    another_caller: (262, "scope-required"),
    nobody: (401, "agent-unauthenticated"),
}


def status_and_reason(response: Response) -> tuple[int, str]:
    return int(response.status), str(document(response).get("reason", ""))


@pytest.mark.parametrize("fronted", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_counts_for_the_next_request(change: Callable[[DispatchHost], None], fronted: bool) -> None:
    """Of a connection, or a front's client, whose requests were all alike, and passed."""
    host = host_of()
    connected = Connected(host, learning=True, fronted=fronted)
    assert [connected.ask().status for _ in range(4)] == [200] * 4
    (kept,) = host.dispatcher._passage._kept.values()  # type: ignore[attr-defined]
    with patch.object(host.dispatcher._passage, "_learn") as learning:  # type: ignore[attr-defined]
        assert connected.ask().status == 200
    assert not isinstance(kept, int) and not learning.called
    change(host)
    assert status_and_reason(connected.ask()) == CHANGES[change]


def test_the_control_without_conditions_would_let_it_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gate forgets to say what its verdict rests on, who was narrowed calls on."""
    monkeypatch.setattr(identity.CallerGate, "conditions", lambda self, exchange: ())
    host = host_of()
    connected = Connected(host, learning=True)
    for _ in range(4):
        connected.ask()
    narrow(host)
    assert connected.ask().status == 200


def test_a_certificate_counts_to_its_last_second(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_of()
    connected = Connected(host, learning=True)
    for _ in range(4):
        assert connected.ask().status == 200
    now = time.time() + 31 * 86_400
    monkeypatch.setattr("agtphost.dispatch.dispatcher.time.time", lambda: now)
    assert status_and_reason(connected.ask()) == (401, "agent-unauthenticated")


def test_what_names_a_call_and_what_it_says_is_looked_at_each_time() -> None:
    """Identifiers, the body, and how often is asked; what is learned of one connection is nothing of another's."""
    host = host_of({"limits": {"requests_per_minute": 60, "rate_burst": 10}})
    connected = Connected(host, learning=True)
    assert [document(connected.ask(task_id=each))["result"]["task"] for each in ("a", "b", "b", "a", "b")] == [
        *("a", "b", "b", "a", "b")
    ]
    assert payload(host)["task_id"] == "b"
    assert status_and_reason(connected.ask(task_id="x" * 129)) == (400, "invalid-identifier")
    assert status_and_reason(connected.ask(body={"text": 1})) == (422, "invalid-input")
    assert status_and_reason(connected.ask(body=b"{")) == (400, "malformed-body")
    other = Connected(host, learning=True, proven=False)
    other._commons = connected._commons
    assert other.ask().status == 401
    statuses = [connected.ask().status for _ in range(8)]
    assert statuses[0] == 200 and statuses[-1] == 429


def test_who_is_addressed_may_change() -> None:
    """The only agent is not the only one any more, and an alias means another agent."""
    host = host_of()
    connected = Connected(host, learning=True)
    for _ in range(4):
        assert connected.ask().status == 200
        assert payload(host)["agent_id"] == HOSTED
    two_hosted(host)
    connected.ask()
    assert payload(host)["agent_id"] != HOSTED


def test_two_hosts_of_which_one_learns_answer_alike() -> None:
    """Whatever is asked, by whom, in whichever order, and whatever changes meanwhile: a walk by chance."""
    chance = random.Random(seed_of_chance())
    learned = 0
    for _ in range(8):
        hosts = [host_of({"limits": {"rate_burst": 3600}}), host_of({"limits": {"rate_burst": 3600}})]
        lines = [[Connected(host, learning=learns, proven=proven, fronted=fronted)
                  for proven, fronted in ((True, False), (False, False), (True, True), (False, True))]
                 for host, learns in zip(hosts, (True, False), strict=True)]  # fmt: skip
        for _ in range(80):
            one = chance.choice([*UNDONE])
            for change in chance.choice(([], [], [], [], [], [], [one], UNDONE.values(), UNDONE.values())):
                for host in hosts:
                    change(host)
            kind, line = chance.choice(KINDS[: chance.choice((2, len(KINDS)))]), chance.choice((0, 0, 0, 1, 2, 2, 3))
            task_id, body = (
                chance.choice(("t-1", "t-1", "t-1", "t-2", "t-2", "x" * 129)),
                chance.choice((GOOD, GOOD, {"text": 1})),
            )
            answers = [each[line].ask(kind, task_id, body) for each in lines]
            assert comparable_answer(hosts[0], answers[0]) == comparable_answer(hosts[1], answers[1]), kind
        kept = hosts[0].dispatcher._passage._kept  # type: ignore[attr-defined]
        learned += sum(not isinstance(each, int) for each in kept.values())
        assert not hosts[1].dispatcher._passage._kept  # type: ignore[attr-defined]
    assert learned > 8


def reinstate(host: DispatchHost) -> None:
    host.put(CALLER, "active")


def reinstate_addressee(host: DispatchHost) -> None:
    host.put(HOSTED, "active")


def widen(host: DispatchHost) -> None:
    host.core.services.rights.configure([])


def clear(host: DispatchHost) -> None:
    host.core.services.loaded.tls.revocations.adopt(RevokedLinks())


UNDONE = {
    suspend: reinstate,
    suspend_addressee: reinstate_addressee,
    deprecate: reinstate_addressee,
    narrow: widen,
    revoke: clear,
}


NEVER_ALIKE = {"Response-ID", "Audit-ID", "Audit-Summary", "response_id", "action_id", "summary_id"}


def comparable_answer(host: DispatchHost, response: Response) -> tuple[Any, ...]:
    """All of an answer and of its record but identifiers and times that are never twice the same."""
    fields = tuple(each for each in response.headers.fields if each[0] not in NEVER_ALIKE)
    record = {name: value for name, value in payload(host).items() if name not in NEVER_ALIKE}
    return int(response.status), fields, response.body, record


def test_gates_that_may_be_left_out_are_left_out() -> None:
    """Of a usual call five look again in front of the handler; an operator's own gate always does."""
    host = host_of()
    connected = Connected(host, learning=True)
    for _ in range(3):
        connected.ask()
    (kept,) = host.dispatcher._passage._kept.values()  # type: ignore[attr-defined]
    names = [check.__self__.name for check in kept.checks]
    assert names == [name for name in (gate.name for gate in host.gates) if name in names]
    assert set(names) <= {"rate", "body", "budget", "session", "schema", "idempotency", "store"}

    class Own:
        name = "own"
        asked = 0

        def check(self, exchange: Any) -> None:
            self.asked += 1

    own = Own()
    host = host_of(bounds=[own])
    connected = Connected(host, learning=True)
    for _ in range(5):
        assert connected.ask().status == 200
    assert own.asked == 5


def test_what_is_kept_goes_with_the_connection() -> None:
    """And of what is refused time and again it is tried less and less often to learn something."""
    host = host_of()
    connected = Connected(host, learning=True)
    for _ in range(3):
        connected.ask()
    found: GateChain = host.dispatcher._passage  # type: ignore[attr-defined]
    assert len(found._kept) == 1
    del connected
    host.recorder.calls.clear()
    gc.collect()
    assert len(found._kept) == 0
    stranger = Connected(host, learning=True, proven=False)
    with patch.object(found, "_learn", wraps=found._learn) as learning:
        for _ in range(40):
            assert stranger.ask().status == 401
    assert learning.call_count == 7
    assert list(found._kept.values()) == [40]
