"""Rates: core v08 sections 5.6, 10.5 and 10.11."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from zope.interface.verify import verifyObject

from agtphost.config.limits import Limits
from agtphost.dispatch.gates.limits import LOG_SECONDS, Allowances, RateGate, address_origin
from agtphost.iagtp import IGate
from agtphost.identity.peer import Assurance, Peer
from agtphost.wire.events import Response
from tests.dispatch.hosts import CALLER, DispatchHost, agent, certificate, document
from tests.rows import each_row

OTHER = "d" * 64


class Limited:
    """A host whose second agent has the first one's owner, and a clock that the test turns."""

    def __init__(
        self,
        *,
        agent_rate: int = 5,
        principal: int = 1_000,
        anonymous: int = 5,
        exempt: str = "192.0.2.0/24",
        floor: Assurance = Assurance.HEADER,
    ) -> None:
        self.now = 0.0
        other = replace(agent(OTHER, "other", hosted=False, scopes=frozenset({"booking:*"})), owner_id="acme.example")
        self.host = DispatchHost(others=(other,))
        limits = Limits(
            requests_per_minute=agent_rate,
            requests_per_minute_per_principal=principal,
            anonymous_requests_per_minute=anonymous,
            exempt_addresses=(IPv4Network(exempt),),
        )
        self.gate = RateGate(limits, lambda: self.now, floor=floor)
        self.host.rewire([self.gate if each.name == "rate" else each for each in self.host.gates])

    def ask(self, method: str = "QUERY", path: str = "/words", who: str = CALLER, **more: Any) -> Response:
        more.setdefault("peer", Peer(address="10.0.0.1", certificate=certificate(who)))
        return self.host.ask(method, path, **more)


@each_row("prefix", ["::ffff:", "64:ff9b::"])
def test_clients_of_ipv4_within_ipv6_count_each_for_itself(prefix: str) -> None:
    """At a port of both kinds the system spells IPv4 within IPv6, where all addresses would be one network."""
    assert address_origin(f"{prefix}192.0.2.7") == "192.0.2.7" == address_origin("192.0.2.7")
    assert address_origin(f"{prefix}192.0.2.8") == "192.0.2.8"
    assert address_origin("2001:db8::1%eth0") == address_origin("2001:db8::2") == "2001:db8::/64"


def test_the_sixth_request_in_a_minute() -> None:
    """AGTP-078: five a minute; the sixth is 429 with Retry-After, another agent's is answered; on record."""
    limited = Limited()
    assert [limited.ask().status for _ in range(5)] == [200] * 5
    response = limited.ask()
    assert (response.status, document(response)["reason"]) == (429, "rate-limited")
    assert response.headers.get("retry-after") == str(document(response)["retry_after_seconds"]) == "12"
    record = limited.host.ledger.drafts[-1].payload
    assert (record["status"], record["reason"], record["caller_id"]) == (429, "rate-limited", CALLER)
    assert limited.ask(who=OTHER).status == 200
    limited.now = 12.0
    assert limited.ask().status == 200
    assert limited.ask().status == 429


def test_escalate_has_an_allowance_of_its_own() -> None:
    """AGTP-219: an agent that used up everything else still reaches the gates behind with ESCALATE."""
    limited = Limited()
    for method in ("QUERY", "RESERVE"):
        assert [limited.ask(method, "/nowhere").status for _ in range(6)][-1] == 429
    assert limited.ask("ESCALATE", "/nowhere").status == 404


def test_who_merely_says_a_name_uses_up_nothing_of_its_bearer() -> None:
    """T-ID-30: an agent with its certificate has an allowance apart from the header's."""
    limited = Limited()
    forged = Peer(address="10.6.6.6")
    said = [limited.ask(peer=forged, headers={"Agent-ID": CALLER}).status for _ in range(6)]
    assert said == [200] * 5 + [429]
    assert limited.ask().status == 200


def test_a_token_and_a_certificate_of_one_agent_share_an_allowance() -> None:
    """What proves an agent gives it no second rate; who only names it uses up nothing of it."""
    limited = Limited()
    token = {"peer": Peer(address="10.0.0.7", vouched=True), "headers": {"Agent-ID": CALLER}}
    forged = {"peer": Peer(address="10.6.6.6"), "headers": {"Agent-ID": CALLER}}
    assert [limited.ask(**forged).status for _ in range(6)][-1] == 429
    assert [limited.ask(**which).status for which in (token, {}, token, {}, token)] == [200] * 5
    assert (limited.ask().status, limited.ask(**token).status) == (429, 429)
    assert limited.ask(who=OTHER).status == 200


def test_where_headers_are_not_believed_a_name_has_no_rate_of_its_own() -> None:
    """A stranger who names one agent after the other is counted as one without a name: by its address."""
    limited = Limited(floor=Assurance.CERTIFICATE)

    def named(who: str, address: str) -> int:
        return limited.ask(path="/public", peer=Peer(address=address), headers={"Agent-ID": who}).status

    assert [named(who, "10.0.0.1") for who in (CALLER, OTHER) * 3] == [200] * 5 + [429]
    assert named(CALLER, "10.0.0.2") == 200
    exempt = [named(who, "192.0.2.7") for who in (CALLER,) * 6 + (OTHER,)]
    assert exempt == [200] * 5 + [429, 200], "behind a proxy whose address has no rate, each name has one"
    assert limited.ask().status == 200


def test_agents_of_one_principal_share_an_allowance() -> None:
    """AGTP-313: two agents of one owner exceed the owner's allowance together."""
    limited = Limited(agent_rate=100, principal=6)
    asked = [limited.ask(who=who).status for who in (CALLER, OTHER) * 3]
    assert asked == [200] * 6
    response = limited.ask()
    assert (response.status, document(response)["scope"]) == (429, "principal")


def test_the_nameless_are_counted_by_address() -> None:
    """AGTP-313: one address, or one /64, has one allowance; exempt addresses have none."""
    limited = Limited(exempt="127.0.0.1")

    def ask(address: str) -> int:
        return limited.ask(path="/public", peer=Peer(address=address)).status

    assert [ask("10.0.0.1") for _ in range(6)] == [200] * 5 + [429]
    assert ask("10.0.0.2") == 200
    assert [ask(f"2001:db8::{number}") for number in range(1, 7)] == [200] * 5 + [429]
    assert ask("2001:db8:0:1::1") == 200
    assert [ask("127.0.0.1") for _ in range(9)] == [200] * 9


def test_an_issuer_is_not_held_up_by_its_address() -> None:
    """A client certificate that names no agent has an allowance of its own: REVOKE gets through a flood."""
    limited = Limited()
    for _ in range(6):
        limited.ask(path="/public", peer=Peer(address="10.0.0.1"))
    registrar = Peer(address="10.0.0.1", certificate=certificate(None, sha256="9" * 64))
    assert limited.ask("REVOKE", "/nowhere", peer=registrar).status == 404


def test_calls_that_the_host_makes_for_an_agent_are_counted() -> None:
    """A step of a workflow that goes on by itself counts as a request of the agent in whose name it is made."""
    limited = Limited()
    inner = Peer(address="10.0.0.1", certificate=certificate(), depth=1)
    assert [limited.ask(peer=inner).status for _ in range(6)] == [200] * 5 + [429]
    assert limited.ask().status == 429


def test_several_calls_are_taken_together_or_not_at_all() -> None:
    """Calls that are announced take no part of an allowance that has too few; what is left is told exactly."""
    allowances = Allowances(60, 60.0)
    assert (allowances.most, allowances.calls_left("one", 0.0)) == (60, 60)
    assert not allowances.take("one", 0.0, 50)
    assert (allowances.calls_left("one", 0.0), allowances.take("one", 0.0, 11)) == (10, 1.0)
    assert not allowances.take("one", 0.0, 10)
    assert (allowances.calls_left("one", 0.0), allowances.calls_left("one", 3.0)) == (0, 3)
    allowances.owe("one", 3.0, 5)
    assert (
        allowances.calls_left("one", 3.0),
        allowances.calls_left("one", 5.0),
        allowances.calls_left("one", 6.0),
    ) == (0, 0, 1)
    assert allowances.take("two", 0.0, 61) == 1.0, "more than there ever is"


def test_the_tables_are_bounded_by_last_use() -> None:
    """T-ID-40: whoever was silent longest is forgotten first, so nobody can push out who keeps asking."""
    allowances = Allowances(5, 60.0, most=10)
    for _ in range(5):
        assert not allowances.take("busy", 0.0)
    for number in range(1_000):
        allowances.take(f"address {number}", 0.0)
        assert allowances.take("busy", 0.0) > 0
    assert len(allowances) <= 10


@each_row("per_minute", [1, 5, 60, 600_000])
def test_no_minute_sees_more_than_twice_the_rate(per_minute: int) -> None:
    """A full bucket and its refill: the most that any minute can see, whatever the pace."""
    allowances = Allowances(per_minute, 60.0)
    most = min(per_minute, 2_000)
    passed = sum(not allowances.take("x", step * 60.0 / (4 * most)) for step in range(4 * most))
    assert most <= passed <= 2 * per_minute


def test_a_flood_is_logged_once_a_minute() -> None:
    """Each 429 has its record; the operator's log has one line a minute and caller."""
    from twisted.logger import globalLogPublisher

    lines: list[Any] = []

    def observe(event: Any) -> None:
        if event.get("log_namespace") == "agtphost.dispatch.gates.limits":
            lines.append(event)

    globalLogPublisher.addObserver(observe)
    try:
        limited = Limited(agent_rate=1)
        for _ in range(20):
            limited.ask()
        assert len(lines) == 1
        assert len(limited.host.ledger.drafts) == 20
        limited.now = LOG_SECONDS + 1
        limited.ask()
        limited.ask()
        assert len(lines) == 2
    finally:
        globalLogPublisher.removeObserver(observe)


def test_the_gate_is_after_the_caller_and_can_be_missed() -> None:
    """Design decision 6: rate comes right after the caller; the control: without the gate nothing is limited."""
    gate = RateGate(Limits())
    assert verifyObject(IGate, gate)
    names = [each.name for each in DispatchHost().gates]
    assert names.index("rate") == names.index("caller and lifecycle") + 1
    without = DispatchHost()
    without.rewire([each for each in without.gates if each.name != "rate"])
    assert [without.ask("QUERY", "/words").status for _ in range(9)] == [200] * 9
