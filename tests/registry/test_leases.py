"""Leases: calls renew them, silence ends them, and an outage of many is taken for the host's own."""

from __future__ import annotations

from agtphost.registry.feature import Registry
from agtphost.registry.leases import Leases
from agtphost.registry.maintenance import CardMaintenance
from agtphost.testing.reactor import MemoryReactor
from tests.host.carried import carried
from tests.registry.hosts import RegistryHost, card

DAY = 86_400


def leased(*ids: str, lifetime: float = 60) -> tuple[Leases, MemoryReactor]:
    """Leases of cards that nobody renews by calling."""
    clock = MemoryReactor()
    leases = Leases(clock, lambda: 1_000_000 + clock.seconds())
    leases.start()
    for card_id in ids:
        leases.put(card_id, "", lifetime)
    return leases, clock


def test_any_call_of_the_agent_renews_its_leases() -> None:
    """Live, late after one lifetime, lost after three; what the agent is answered, a refusal too, brings it back."""
    host = RegistryHost()
    assert host.register().result["lifetime"] == 900
    host.register(given=card(id="translator:quick"), lifetime=60)
    host.advance(70)
    assert (host.state(), host.state("translator:quick")) == ("live", "late")
    assert host.call("QUERY", "/nowhere", caller=host.translator).status == 404
    assert host.state("translator:quick") == "live"
    sealed = len(host.records())
    host.advance(185)
    assert (host.state(), host.state("translator:quick")) == ("live", "lost")
    assert len(host.records()) == sealed + 3, "two answers, and what keeps since when one is lost; renewing adds none"
    bare = host.connect()
    claimed = host.call("DISCOVER", "/methods", connection=bare, headers={"Agent-ID": host.translator.agent_id})
    assert claimed.status == 200 and host.state("translator:quick") == "lost", "who claims to be it does not renew it"
    seen = host.get("translator:quick", host.operator, form="entry").result["seen_at"]
    assert seen.endswith("Z")
    host.call("RENEW", "/cards/translator:quick", {"lifetime": 3600}, caller=host.operator)
    assert host.state("translator:quick") == "live"
    entry = host.get("translator:quick", host.operator, form="entry").result
    assert entry["lifetime"] == 3600
    for wrong in (59, 86_401, "soon", True):
        refused = host.register(lifetime=wrong)
        assert (refused.status, refused.document["parameter"]) == (422, "lifetime"), wrong


def test_what_an_operator_uploaded_stays_unless_it_has_a_lease() -> None:
    """Nobody would renew it by calling."""
    host = RegistryHost()
    host.register(host.operator, card(id="bare"))
    host.register(host.operator, card(id="leased"), lifetime=60)
    host.advance(10 * DAY)
    assert (host.state("bare"), host.state("leased")) == ("live", "lost")


def test_start_of_the_host_is_no_silence_of_an_agent() -> None:
    """After a restart every agent counts as just seen; ``test_reload`` shows that a reload keeps the leases."""
    host = RegistryHost()
    host.register(lifetime=60)
    host.advance(170)
    assert host.state() == "late"
    host.close()
    again = RegistryHost(store=host.store)
    assert again.state() == "live"
    again.advance(185)
    assert again.state() == "lost"


def test_states_stand_still_where_more_than_a_third_is_lost() -> None:
    """Of nine, three may go at once; a fourth within the minute is taken for the host's own outage."""
    names = [f"c{number}" for number in range(9)]
    leases, clock = leased(*names)
    beating = names[3:]

    def beat(seconds: int) -> None:
        for _ in range(seconds // 10):
            clock.advance(10)
            for card_id in beating:
                leases.renew(card_id)

    beat(190)
    assert [leases.state(card_id) for card_id in names] == ["lost"] * 3 + ["live"] * 6
    assert not leases.frozen, "exactly a third is no more than that"
    for card_id in names:
        leases.renew(card_id)
    beating = names[4:]
    beat(190)
    assert leases.frozen and {leases.state(card_id) for card_id in names[:4]} == {"late"}
    leases.renew("c0")
    leases.renew("c1")
    beating = [*names[:2], *names[4:]]
    beat(70)
    assert not leases.frozen
    assert [leases.state(card_id) for card_id in names[:4]] == ["live", "live", "lost", "lost"]


def test_without_self_preservation_all_would_be_lost() -> None:
    """The control: each alone, which is what states come to where nobody else is silent."""
    leases, clock = leased("one")
    clock.advance(181)
    assert leases.state("one") == "lost" and not leases.frozen
    leases, clock = leased("one", "two", "three")
    clock.advance(400)
    assert {leases.state(card_id) for card_id in ("one", "two", "three")} == {"late"} and leases.frozen


def kept(host: RegistryHost) -> CardMaintenance:
    """What a running host has look after its cards."""
    return carried(host, "registry", Registry).card_watch.maintenance


def test_who_is_lost_for_long_is_forgotten_and_no_restart_delays_it() -> None:
    """``forget_days`` begin when it was lost, which is durable; whoever is heard of again is not forgotten."""
    from twisted.internet.defer import Deferred

    host = RegistryHost({"forget_days": 2})
    host.register(lifetime=60)
    host.register(host.operator, card(id="other"), lifetime=60)
    host.register(host.operator, card(id="third"))
    host.advance(100)
    host.call("RENEW", "/cards/other", {}, caller=host.operator)
    host.advance(85)
    assert (host.state(), host.state("other")) == ("lost", "late")
    host.advance(1.5 * DAY)
    host.call("RENEW", "/cards/other", {}, caller=host.operator)
    host.close()
    again = RegistryHost({"forget_days": 2}, store=host.store)
    again.clock.advance(host.clock.seconds())
    maintenance = kept(again)
    again.advance(0.4 * DAY)
    Deferred.fromCoroutine(maintenance.look())
    again.advance(0)
    assert again.registered(again.operator) == ["other", "third", "translator"]
    again.advance(0.2 * DAY)
    Deferred.fromCoroutine(maintenance.look())
    again.advance(0)
    assert again.registered(again.operator) == ["other", "third"]
