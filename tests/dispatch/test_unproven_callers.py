"""
Whoever merely says an Agent-ID touches nothing that the agent itself has (security.md T-ID-30, T-ID-40).

A victim that proves its identity leaves something of each kind; then a caller without a certificate names the victim
and tries to read it, use it up, change it, crowd it out or have it counted. Hosts are those of the development profile,
where such callers get furthest. A kind of held item that is in no row fails the test.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.adapters.a2a import messages
from agtphost.adapters.acp import handlers as acp_handlers
from agtphost.adapters.mcp.desk import Desk
from agtphost.audit.held import HeldTable
from agtphost.dispatch import contract_gates
from agtphost.dispatch.claims import ClaimedScopesGate
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.quotes import MOST_PER_AGENT
from agtphost.dispatch.rate_gate import RateGate, Rates
from agtphost.handlers.context import EndpointContext
from agtphost.identity.peer import UNPROVEN, Assurance, Peer, state_owner, state_owners
from agtphost.methods.sessions import SIGHTED_PER_AGENT, Sightings
from agtphost.negotiation.settings import Settings
from agtphost.vocabulary import holdings
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers
from tests.dispatch.market import Market, known
from tests.dispatch.scene import CALLER as BUYER
from tests.dispatch.scene import Scene, certificate, document
from tests.methods.play import CALLER, OTHER, Play, body_of
from tests.negotiation.table import ALICE, BOOK_ROOM, GATE, Table, told

VICTIM = CALLER
SECRET = "what only the victim may see"

RELAXED = Settings(gate=GATE, synthesis_enabled=True, min_assurance=Assurance.HEADER)


def snapshot(held: HeldTable, owner: str) -> dict[tuple[str, str], tuple[int, str]]:
    """Everything that belongs to an agent: version and content by kind and key."""
    return {
        (kind, item.key): (item.version, json.dumps(item.value, sort_keys=True, default=str))
        for kind in holdings.HELD
        for item in held.of(kind, owner)
    }


class Untouched:
    """Compares what the victim has before an attack and after it."""

    def __init__(self, held: HeldTable, owner: str) -> None:
        self._held, self._owner = held, owner
        self._before = snapshot(held, owner)
        assert self._before, "the victim has something"

    def check(self, *answers: Any) -> None:
        assert snapshot(self._held, self._owner) == self._before
        for answer in answers:
            assert SECRET.encode() not in answer.body


# Held items


def escalations() -> None:
    """Neither read, nor crowded out, nor decided, nor is the victim's task found to stand still."""
    play = Play(assurance=Assurance.HEADER)
    mine = {"task_id": "t-1", "reason": "scope_limit", "context": {"why": SECRET}}
    play.result("ESCALATE", code=202, **mine)
    guard = Untouched(play.held, VICTIM.agent_id)
    answers = [
        play.ask("QUERY", "/escalations", certain=False),
        play.ask("ESCALATE", certain=False, **mine),
        *(play.ask("ESCALATE", certain=False, **{**mine, "task_id": f"x-{number}"}) for number in range(30)),
    ]
    assert body_of(answers[0])["result"]["count"] == 0
    assert play.ask("ECHO", "/text", {"text": "x"}, certain=False, headers={"Task-ID": "t-1"}).status in (200, 409)
    guard.check(*(answer for answer in answers if b'"context"' in answer.body))
    assert play.result("ESCALATE", code=202, **{**mine, "task_id": "t-2"})["status"] == "pending_review"


def notifications() -> None:
    """The victim's inbox is not read, acknowledged or filled in its name, and what it sent is not shown."""
    play = Play(assurance=Assurance.HEADER)
    sent = play.result("NOTIFY", code=202, by=OTHER, recipient=VICTIM.agent_id, content=SECRET)
    play.result("NOTIFY", code=202, recipient=OTHER.agent_id, content=SECRET)
    guard = Untouched(play.held, VICTIM.agent_id)
    box = play.ask("QUERY", "/notifications", certain=False)
    outbox = play.ask("QUERY", "/notifications", certain=False, box="sent")
    confirmed = play.ask("CONFIRM", certain=False, target_id=sent["notification_id"], status="accepted")
    assert body_of(box)["result"]["count"] == body_of(outbox)["result"]["count"] == 0
    assert confirmed.status == 404
    # As many as one sender may leave there are not the victim's share.
    for number in range(300):
        if play.ask("NOTIFY", certain=False, recipient=OTHER.agent_id, content=number).status == 429:
            break
    guard.check(box, outbox, confirmed)
    assert play.ask("NOTIFY", recipient=OTHER.agent_id, content="mine").status == 202


def attestations() -> None:
    """A repeat of the victim's CONFIRM by somebody else is not answered with its receipt."""
    play = Play(assurance=Assurance.HEADER)
    sent = play.result("NOTIFY", code=202, by=OTHER, recipient=VICTIM.agent_id, content=SECRET)
    same = {"target_id": sent["notification_id"], "status": "accepted"}
    receipt = play.result("CONFIRM", **same)
    guard = Untouched(play.held, VICTIM.agent_id)
    answer = play.ask("CONFIRM", certain=False, **same)
    assert receipt["attestation_id"].encode() not in answer.body
    guard.check(answer)


def suspensions() -> None:
    """The victim's session is not stopped, resumed or seen to stand still."""
    play = Play(assurance=Assurance.HEADER)
    echo = {"text": "x"}
    assert play.ask("ECHO", "/text", echo, headers={"Session-ID": "s-1"}).status == 200
    assert play.refused("SUSPEND", certain=False, session_id="s-1") == (404, "session-unknown")
    assert play.ask("ECHO", "/text", echo, headers={"Session-ID": "s-1"}).status == 200
    stopped = play.result("SUSPEND", session_id="s-1", checkpoint={"why": SECRET})
    guard = Untouched(play.held, VICTIM.agent_id)
    answer = play.ask("RESUME", certain=False, workflow_id="s-1", resumption_nonce=stopped["resumption_nonce"])
    assert answer.status == 404
    guard.check(answer)
    assert play.result("RESUME", workflow_id="s-1", resumption_nonce=stopped["resumption_nonce"])


def contracts() -> None:
    """Not presented, found, revoked, crowded out or listed; nor is a proposal of the victim's read or gone on with."""
    table = Table(RELAXED)
    name = told(table.opted())["synthesis_id"]
    assert table.under(name).status == 200
    guard = Untouched(table.ledger.held, ALICE)
    answers = [
        table.under(name, sure=False),
        table.ask("BOOK", "/room", {"guest": "Ann"}, sure=False),
        table.ask("REVOKE", "/", {"target": "contract", "synthesis_id": name}, sure=False),
        table.ask("INSPECT", "/", {"target": "contract", "synthesis_id": name}, sure=False),
        *(table.propose(BOOK_ROOM, sure=False) for _ in range(12)),
        *(table.opted(sure=False) for _ in range(4)),
    ]
    assert [answer.status for answer in answers[:4]] == [401, 404, 403, 404]
    listed = told(table.ask("DISCOVER", "/contracts", sure=False))
    assert name not in json.dumps(listed)
    guard.check(*answers)
    assert not [event for event in table.events()[1:] if event[0] == ALICE], "nothing in the victim's stream"
    assert table.under(name).status == 200


def quotes() -> None:
    """A production host answers QUOTE to header-only callers: the victim's quotes are not theirs to use or to fill."""
    market = Market()
    quoted = document(market.quote())["result"]
    guard = Untouched(market.ledger.held, BUYER)
    anybody = Peer(address="127.0.0.1")
    for number in range(MOST_PER_AGENT + 5):
        cart = {"lines": [{"sku": str(number), "qty": 1, "unit_price": "1"}], "currency": "EUR"}
        headers = {"Agent-ID": BUYER}
        assert market.ask("QUOTE", "/cart", {"cart": cart}, peer=anybody, headers=headers).status in (200, 429)
    guard.check()
    assert market.quote({"lines": [{"sku": "mine", "qty": 1, "unit_price": "1"}], "currency": "EUR"}).status == 200
    stolen = {"item": None, "cart_quote_id": quoted["quote_id"]}
    own = market.buy(stolen, peer=known())
    assert own.status == 200


def tasks_of_servers() -> None:
    """Tasks and running calls at MCP servers, A2A agents and ACP servers go by the same name of the caller."""
    victim, liar = (
        EndpointContext(input={}, method="EXECUTE", path="/", caller=VICTIM, assurance=assurance)
        for assurance in (Assurance.CERTIFICATE, Assurance.HEADER)
    )
    assert messages.owner_of(victim) == acp_handlers._owner(victim) == VICTIM.agent_id
    for owner in (messages.owner_of(liar), acp_handlers._owner(liar)):
        assert owner != VICTIM.agent_id and owner.startswith(UNPROVEN)
    desk = Desk(None)  # type: ignore[arg-type]
    given_up: list[bool] = []
    desk._running[victim.owner, "t-1"] = [SimpleNamespace(cancel=lambda: given_up.append(True))]  # type: ignore[list-item]
    desk.set_level(victim.owner, None, "error")
    assert desk.cancel(liar.owner, "t-1") == 0 and not given_up
    desk.set_level(liar.owner, None, "debug")
    assert desk._levels[victim.owner, ""] == "error"
    assert desk.cancel(victim.owner, "t-1") == 1


def by_signature() -> None:
    """Hops and used tokens belong to whoever signed them, and nobody signs with a header."""
    from tests.methods import test_delegation as delegating

    host = delegating.Playing()
    answer = host.stage.ask(
        "DELEGATE",
        "/",
        {"method": "DELEGATE", "parameters": delegating.request()},
        headers={"Task-ID": "t-1", "Agent-ID": delegating.BOSS.agent_id},
    )
    assert answer.status in (401, 551) and not snapshot(host.ledger.held, delegating.BOSS.agent_id)


ROWS: dict[str, Callable[[], None]] = {
    "escalation": escalations,
    "notification": notifications,
    "attestation": attestations,
    "suspension": suspensions,
    "contract": contracts,
    "contract-accepted": contracts,
    "rcns-attempt": contracts,
    "negotiation": contracts,
    "proposal": contracts,
    "quote": quotes,
    "mcp-task": tasks_of_servers,
    "a2a-task": tasks_of_servers,
    "acp-run": tasks_of_servers,
    "delegation": by_signature,
    "delegated-task": by_signature,
    "governance-token": by_signature,
    "intent-assertion": by_signature,
}
CERTIFIED = {"a2a-front-task"}
"""Kinds whose owners were asked for their certificate or a secret by a front: nobody else gets there."""


OF_THE_HOST = {
    "certificate-revocation", "lifecycle-notice", "mcp-tool-changed", "mcp-tool-pin", "org-domain", "retained-agent",
    "upstream-pin", "witnessed-checkpoint", "witnessed-contradiction", "witnessed-keys",
}  # fmt: skip
"""Kinds that follow from what operators, registrars, upstreams and other hosts do, and are nobody's who calls."""


def test_every_kind_of_held_item_has_a_row() -> None:
    """A new kind comes with a row that says what becomes of the victim's, or is the host's own."""
    assert holdings.HELD.keys() == ROWS.keys() | CERTIFIED | OF_THE_HOST


@pytest.mark.parametrize("attack", sorted(set(ROWS.values()), key=lambda each: each.__name__), ids=lambda f: f.__name__)
def test_held_items_of_a_victim(attack: Callable[[], None]) -> None:
    """T-ID-30: nothing is read, consumed, changed, counted or evicted."""
    attack()


# State in memory


def test_sessions() -> None:
    """Not taken, not kept alive, not crowded out; one that was squatted is the victim's as soon as it comes."""
    seen = Sightings(claimed=Sightings())
    victim, liar = "a" * 64, state_owner("a" * 64, Assurance.HEADER)
    assert seen.sight("s", victim, "key")
    assert not seen.sight("s", liar, "") and not seen.knows("s", liar)
    for number in range(3 * SIGHTED_PER_AGENT):
        seen.sight(f"x-{number}", liar, "")
    assert seen.knows("s", victim) and seen.active(victim, 60) == 1
    assert seen.sight("x-590", victim, "key") and seen.knows("x-590", victim)
    seen.end(victim)
    assert not seen.sight("s", victim, "key") and not seen._claimed._agents  # type: ignore[union-attr]


def test_idempotency_keys() -> None:
    """The victim's stored answer is not given away, and its key not used up."""
    scene = Scene()
    with_key = {"Idempotency-Key": "k", "Agent-ID": BUYER}
    gate = next(gate for gate in scene.gates if isinstance(gate, contract_gates.IdempotencyGate))

    def reserved(peer: Peer, assurance: Assurance) -> str:
        exchange = Exchange(Request(method="RESERVE", path="/desk", headers=Headers(list(with_key.items()))), peer, 1.0)
        exchange.caller, exchange.assurance = scene.caller, assurance
        exchange.idempotency_key, exchange.binding = "k", scene.bindings[-1]
        exchange.method = "RESERVE"
        with contextlib.suppress(StopIteration):
            gate.check(exchange).send(None)
        assert exchange.reservation is not None
        return exchange.reservation.agent_id

    mine = reserved(known(), Assurance.CERTIFICATE)
    assert mine != reserved(Peer(address="127.0.0.1"), Assurance.HEADER)


def test_rates() -> None:
    """A million requests in its name leave the victim its allowance."""
    gate = RateGate(Rates(agent=60, principal=60, anonymous=60, burst=2.0), now=lambda: 1.0)
    scene = Scene()

    def counted(assurance: Assurance) -> bool:
        exchange = Exchange(Request(method="QUERY", path="/"), Peer(address="10.0.0.1"), 1.0)
        exchange.caller, exchange.assurance = scene.caller, assurance
        try:
            gate.check(exchange)
        except Exception:
            return False
        return True

    assert sum(counted(Assurance.HEADER) for _ in range(100)) < 100
    assert counted(Assurance.CERTIFICATE)


def test_the_memo_of_claims() -> None:
    """Whatever such callers claim pushes out nobody else's effective scopes."""
    scene = Scene()
    gate = ClaimedScopesGate()

    def claim(text: str, assurance: Assurance) -> None:
        request = Request(method="QUERY", path="/", headers=Headers([("Authority-Scope", text)]))
        exchange = Exchange(request, Peer(address="10.0.0.1"), 1.0)
        exchange.caller, exchange.assurance = scene.caller, assurance
        gate.check(exchange)
        assert exchange.scopes == {text}

    claim("documents:query", Assurance.CERTIFICATE)
    kept = {owner: dict(own) for owner, own in gate._memo.items()}
    assert kept
    for number in range(50):
        claim(f"booking:a{number}", Assurance.HEADER)
    assert {owner: dict(own) for owner, own in gate._memo.items()} == kept


def test_decisions_need_a_certificate() -> None:
    """INSPECT target=decision: 401 without one, about the agent that is named and about nobody alike."""
    from agtphost.dispatch.decision import Question
    from agtphost.errors import Refusal
    from agtphost.methods.decisions import Decisions

    asked: list[Question] = []

    async def decide(question: Question, peer: Peer) -> Any:
        asked.append(question)
        return SimpleNamespace(document=dict)

    scene = Scene()
    decisions = Decisions(decide, scene.directory, frozenset())

    def ask(agent_id: str | None, assurance: Assurance, peer: Peer) -> int:
        given = {"method": "RESERVE", "path": "/desk", **({"agent_id": agent_id} if agent_id else {})}
        context = EndpointContext(
            input=given, method="INSPECT", path="/", caller=scene.caller, assurance=assurance, peer=peer
        )
        try:
            decisions(context).send(None)
        except StopIteration:
            return 200
        except Refusal as refusal:
            return int(refusal.status)
        raise AssertionError("it waits")

    assert [ask(who, Assurance.HEADER, Peer(address="127.0.0.1")) for who in (BUYER, None)] == [401, 401]
    assert not asked
    assert [ask(who, Assurance.CERTIFICATE, known()) for who in (BUYER, None)] == [200, 200]


def test_names_of_state_are_apart() -> None:
    """Each way of being known has its own, of the form that stores take; a control without assurances would not."""
    names = state_owners("a" * 64)
    assert len(set(names)) == len(names) == 3
    assert all(len(name) == 64 and set(name) <= set("0123456789abcdef") for name in names)
    assert [name for name in names if not name.startswith(UNPROVEN)] == ["a" * 64]
    assert certificate(BUYER).agent_id == BUYER
