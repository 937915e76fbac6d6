"""Contracts of closed connections end: in every list, among an agent's contracts, in the store, with an event."""

from __future__ import annotations

from agtphost.identity.peer import Peer
from agtphost.negotiation.contract_cleanup import RETRY_SECONDS, ContractCleanup
from tests.memory import body_of
from tests.negotiation.hosts import ALICE, BOB, BOOK_ROOM, OPEN, ROOT, NegotiatingHost, granting


def close(peer: Peer) -> None:
    """What the connection does when it is lost."""
    for leave in tuple(peer.leaving):
        leave()


def list_contracts(table: NegotiatingHost, who: str = ALICE) -> list[str]:
    return [entry["synthesis_id"] for entry in body_of(table.ask("DISCOVER", "/contracts", who=who))]


def inspection_status(table: NegotiatingHost, synthesis_id: str) -> int:
    return table.ask("INSPECT", "/", {"target": "contract", "synthesis_id": synthesis_id}).status


def serving(table: NegotiatingHost) -> ContractCleanup:
    service = ContractCleanup(table.clock, table.negotiator, table.ledger)
    service.startService()
    return service


def released_contracts(table: NegotiatingHost) -> list[str]:
    """Contracts whose end is on record, in the stream of the agent that they are of."""
    found = []
    for draft in table.ledger.drafts:
        for event in draft.events:
            if event.event_type == "rcns_release":
                if event.fields["reason"] != "connection-closed":
                    continue
                assert event.chain == event.fields["originating_agent_id"]
                found.append(str(event.fields["synthesis_id"]))
    return found


def test_a_closed_connection_ends_its_contracts() -> None:
    """AGTP-266, API-052: listed while it is open; afterwards in no list, for nobody, unknown to INSPECT, on record."""
    table = NegotiatingHost()
    serving(table)
    peer, other = table.peer(ALICE), table.peer(BOB)
    mine = [body_of(table.propose(BOOK_ROOM, peer=peer))["synthesis_id"] for _ in range(2)]
    theirs = body_of(table.propose(BOOK_ROOM, who=BOB, peer=other))["synthesis_id"]
    assert set(list_contracts(table)) == set(mine) and inspection_status(table, mine[0]) == 200
    close(peer)
    assert list_contracts(table) == [] and list_contracts(table, ROOT) == [theirs]
    assert inspection_status(table, mine[0]) == 404
    assert sorted(released_contracts(table)) == sorted(mine)
    assert table.ledger.held.get("contract", mine[0]) is None
    assert not peer.leaving


def test_they_take_no_room() -> None:
    """An agent with as many contracts as it may have: those of closed connections do not count."""
    table = NegotiatingHost(granting(OPEN, max_contracts_per_agent=2))
    serving(table)
    lasting = {"requested_duration": "PT1H"}
    for _ in range(5):
        peer = table.peer(ALICE)
        assert table.propose(BOOK_ROOM, peer=peer).status == 263
        close(peer)
    assert [table.propose(BOOK_ROOM, beside=lasting).status for _ in range(3)] == [263, 263, 463]


def test_what_is_revoked_first_is_ended_once() -> None:
    """REVOKE, then the end of the connection: one event, and it is remembered as revoked."""
    table = NegotiatingHost()
    serving(table)
    peer = table.peer(ALICE)
    synthesis_id = body_of(table.propose(BOOK_ROOM, peer=peer))["synthesis_id"]
    assert table.ask("REVOKE", "/", {"target": "contract", "synthesis_id": synthesis_id}, peer=peer).status == 200
    close(peer)
    assert released_contracts(table) == [] and not peer.leaving
    assert table.under(synthesis_id, peer=peer).status == 464


def test_after_a_restart_none_is_left() -> None:
    """The host was killed while the connection was open: the next run ends its contracts, and no others."""
    first = NegotiatingHost()
    lost = body_of(first.propose(BOOK_ROOM))["synthesis_id"]
    kept = [
        body_of(first.propose(BOOK_ROOM, beside={"requested_duration": "PT1H"}))["synthesis_id"],
        body_of(first.propose(BOOK_ROOM, headers={"Session-ID": "s-1"}))["synthesis_id"],
    ]
    table = NegotiatingHost(ledger=first.ledger, clock=first.clock)
    # Even before it is on record.
    assert set(list_contracts(table)) == set(kept)
    serving(table)
    assert released_contracts(table) == [lost] and set(list_contracts(table)) == set(kept)


def test_while_the_store_is_down_they_wait() -> None:
    """Nothing is lost and nothing is listed: the end is recorded once it can be."""
    table = NegotiatingHost()
    service = serving(table)
    peer = table.peer(ALICE)
    synthesis_id = body_of(table.propose(BOOK_ROOM, peer=peer))["synthesis_id"]
    table.ledger.failing = True
    close(peer)
    table.ledger.failing = False
    assert released_contracts(table) == [] and list_contracts(table) == []
    table.clock.advance(RETRY_SECONDS)
    assert released_contracts(table) == [synthesis_id]
    service.stopService()


def test_the_end_of_the_host_ends_them() -> None:
    """Connections are closed before this stops: what could not be written yet is tried once more."""
    table = NegotiatingHost()
    service = serving(table)
    peer = table.peer(ALICE)
    synthesis_id = body_of(table.propose(BOOK_ROOM, peer=peer))["synthesis_id"]
    table.ledger.failing = True
    close(peer)
    table.ledger.failing = False
    service.stopService()
    assert released_contracts(table) == [synthesis_id]
    assert not table.clock.getDelayedCalls()


def test_without_the_service_the_store_keeps_them() -> None:
    """The control: what is durable here is the service's doing."""
    table = NegotiatingHost()
    peer = table.peer(ALICE)
    synthesis_id = body_of(table.propose(BOOK_ROOM, peer=peer))["synthesis_id"]
    close(peer)
    assert table.ledger.held.get("contract", synthesis_id) is not None and released_contracts(table) == []
