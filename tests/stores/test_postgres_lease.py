"""The lease of a PostgreSQL store: one holder, a term that grows, and an end by the database's clock."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agtphost.stores import StoreError
from agtphost.stores.lease import (
    LONGEST_LEASE,
    STANDBY,
    UNKNOWN_LEASE,
    Holder,
    HostProcess,
    Superseded,
    describe_clock,
    read_holder,
)
from agtphost.stores.postgres import lease as lease_module
from agtphost.stores.postgres import listening
from agtphost.stores.postgres.connection import READING_SECONDS, dial
from agtphost.stores.postgres.lease import PostgresLease
from agtphost.stores.postgres.schema_files import _require_later_programs
from agtphost.vocabulary.times import steady
from tests import postgres
from tests.audit.drafting import draft, group_writer, sealed
from tests.programmes import length
from tests.rows import each_row
from tests.stores.test_postgres import change, place_of
from tests.system.hosting import until

pytestmark = postgres.needed

ROUNDS, CONTENDERS = length(10, 100), 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Provide the URL of a new store."""
    server = postgres.server()
    made = server.url(server.schema(tmp_path))
    place_of(made).create("agtp.test")
    return made


def host(name: str, *, directory: str = "/state", takeover_after: float = 10.0) -> Holder:
    """Return a host."""
    return Holder(name=name, machine="m", directory=directory, takeover_after=takeover_after)


def lease_of(url: str, me: Holder) -> PostgresLease:
    """Return the lease of a store for a host."""
    return place_of(url).lease(me, "agtp.test")


def age(url: str, seconds: float) -> None:
    """Have the holder's last write lie so far back."""
    change(url, f"UPDATE store SET beat = clock_timestamp() - make_interval(secs => {seconds})")


def test_one_host_has_the_lease_until_it_gives_it_up(url: str) -> None:
    """The other one does not get it before, and gets it immediately afterwards, with the next term."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take() and one.term == 1
    assert describe_clock(one.clock_ahead) == ""
    assert not other.take() and other.term == 0
    seen = other.look()
    assert seen.holder is not None and (seen.holder.name, seen.holder.place) == ("a", "m:/state")
    assert seen.holder.since.endswith("Z") and not seen.is_over
    one.give_up()
    assert other.look().is_over
    assert other.take() and other.term == 2
    other.give_up()


@each_row(("database", "said"), [("- interval '1 hour'", "3600 s ahead of"), ("+ interval '1 hour'", "3600 s behind")])
def test_a_clock_that_differs_is_reported_and_concerns_no_lease(tmp_path: Path, database: str, said: str) -> None:
    """A host whose clock is an hour off the database's takes, keeps and loses its lease by the database's clock."""
    server = postgres.server()
    schema = server.schema(tmp_path / database)
    server.run(
        f"CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz RETURN pg_catalog.clock_timestamp() {database}"
    )
    url = server.url(f"{schema},pg_catalog")
    place_of(url).create("agtp.test")
    # The columns of a new store begin with now(), which is that of the server.
    age(url, 60)
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    assert said in describe_clock(one.clock_ahead)
    one.clock_ahead = 0.0
    one.keep()
    assert said in describe_clock(one.clock_ahead)
    assert said in place_of(url).find_risks()[1]
    age(url, 9)
    assert not other.take()
    age(url, 11)
    assert other.take()


def test_a_lease_is_kept_where_a_backslash_escapes(url: str) -> None:
    """With ``standard_conforming_strings`` off, as of a database that an old program needs."""
    lease = lease_of(f"{url}%20-cstandard_conforming_strings%3Doff", host("a"))
    assert lease.take()
    lease.keep()
    lease.give_up()


def test_a_lease_ends_after_the_time_of_its_holder(url: str) -> None:
    """The holder's ``takeover_after`` counts, and not that of the host that waits."""
    one = lease_of(url, host("a", takeover_after=20))
    other = lease_of(url, host("b", takeover_after=3))
    assert one.take()
    age(url, 19)
    assert not other.take()
    age(url, 21)
    assert other.take()
    other.give_up()


def test_a_kept_lease_does_not_end(url: str) -> None:
    """A beat confirms it, and so does a commit."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    writer = group_writer(store)
    for keep in (one.keep, lambda: sealed(writer, draft())):
        age(url, 11)
        before = one.confirmed
        keep()
        assert one.confirmed > before
        assert not other.take()
    store.close()
    assert other.take()
    other.give_up()


def test_a_writer_that_freezes_within_a_transaction_lets_go_of_the_lock(url: str) -> None:
    """The server ends its transaction, so that another host can take the lease once that is over."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    sealed(group_writer(store), draft())
    store.begin()
    store.last_state_change()  # A transaction that reads has the lock from then on.
    # This waits for the lock.
    age(f"{url}%20-cstatement_timeout%3D30s", 11)
    assert other.take()
    other.give_up()
    store.close()


def test_every_transaction_is_limited(url: str) -> None:
    """By the server, also behind a pooler, which loses what a session sets; the first one reads the whole store."""
    store = place_of(url).open_store(create=False, holder="test", server_id="agtp.test")
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    shown = f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}"
    for expected in (("1min", "5s", "1min"), ("5s", "5s", "2s")):
        store.begin()
        assert store._execute(shown).fetchone() == expected  # type: ignore[attr-defined]
        store.commit()
    store.close()


def test_a_beat_counts_from_when_it_was_sent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat whose answer comes late, or is read late by a frozen process, makes nothing fresh."""
    one = lease_of(url, host("a"))
    assert one.take()
    now = [steady()]
    monkeypatch.setattr(lease_module, "steady", lambda: now[0])
    run = one._run

    def run_late(work: Any) -> Any:
        found = run(work)
        now[0] += 100
        return found

    sent = now[0]
    monkeypatch.setattr(one, "_run", run_late)
    one.keep()
    assert one.confirmed == sent
    one.give_up()


def test_a_commit_counts_from_when_it_was_sent(url: str) -> None:
    """The lease counts from a time before the database wrote it, also where the answer took long."""
    lease = lease_of(url, host("a"))
    assert lease.take()
    with closing(place_of(url).open_store(create=False, server_id="agtp.test", lease=lease)) as store:
        writer = group_writer(store)
        sealed(writer, draft())
        with psycopg.connect(url) as other:
            other.execute("SELECT FROM store FOR UPDATE")
            sending = threading.Thread(target=sealed, args=(writer, draft()))
            sending.start()
            until(lambda: postgres.server().run("SELECT 1 FROM pg_locks WHERE NOT granted"))
            waited = steady()
            other.rollback()
            sending.join()
        assert lease.confirmed < waited


def test_a_host_that_was_killed_takes_its_own_lease_back(url: str) -> None:
    """The same name, machine and directory need not wait; each of them alone is another host."""
    assert lease_of(url, host("a")).take()
    again = lease_of(url, host("a", takeover_after=3))
    assert again.take() and again.term == 2
    for other in (host("a", directory="/other"), host("b"), Holder(name="a", machine="n", directory="/state")):
        assert not lease_of(url, other).take()
    again.give_up()


def test_a_host_that_lost_its_lease_learns_it_from_a_beat_and_from_a_commit(url: str) -> None:
    """Both name who took over; the function of the host is called first, so that it can end the process."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    told: list[Superseded] = []
    one.when_superseded = told.append
    assert one.take()
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    writer = group_writer(store)
    sealed(writer, draft())
    age(url, 11)
    assert other.take()
    said = r"was taken over by b \(m:/state\), with term 2; this host had term 1"
    with pytest.raises(Superseded, match=said):
        one.keep()
    with pytest.raises(Superseded, match=said):
        sealed(writer, draft())
    assert len(told) == 3, "by the beat, the commit, and the question whether that was carried out"
    store.close()
    assert other.look().holder is not None, "a host that lost the lease gave up that of another"
    other.give_up()


def test_a_host_without_the_lease_keeps_nothing(url: str) -> None:
    """A beat that was asked for before a host gave up its lease neither fails nor renews it."""
    one = lease_of(url, host("a"))
    assert one.take()
    one.give_up()
    one.keep()
    assert one.look().is_over
    one.give_up()


def test_a_lease_is_kept_beforehand_while_the_store_is_read(url: str) -> None:
    """The whole store is read under the lock: no beat can be sent, and the lease does not end."""
    one, other = lease_of(url, host("a", takeover_after=3)), lease_of(url, host("b"))
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    store.begin()
    seen = other.look()
    assert seen.age < -30
    store.rollback()
    assert abs(other.look().age) < 3
    one.keep(60)
    one.keep()
    assert other.look().age < -30, "a beat took back what was kept beforehand"
    store.close()


def test_a_lost_connection_is_made_again(url: str) -> None:
    """The server ends the session of a lease: the next beat is sent by another one."""
    one = lease_of(url, host("a"))
    assert one.take()
    postgres.server().run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'agtp%'")
    before = one.confirmed
    one.keep()
    assert one.confirmed > before
    one.give_up()


@each_row(
    ("text", "name", "place", "seconds"),
    [
        ('{"name": "a", "machine": "m", "directory": "/s:t", "takeover_after": 5}', "a", "m:/s:t", 5),
        ('{"name": "a", "takeover_after": 1e9}', "a", ":", LONGEST_LEASE),
        ('{"takeover_after": "5"}', "", ":", LONGEST_LEASE),
        ('{"takeover_after": -1}', "", ":", LONGEST_LEASE),
        ("vm:/srv/state", "", "vm:/srv/state", UNKNOWN_LEASE),
        ("[1]", "", "[1]:", UNKNOWN_LEASE),
    ],
)
def test_a_holder_is_read_as_it_was_written(text: str, name: str, place: str, seconds: float) -> None:
    """Also that of agtphost 0.2.0, and one that somebody edited: nothing makes a lease shorter than it may be."""
    found = read_holder(text)
    assert found is not None
    assert (found.name, found.place, found.takeover_after) == (name, place, seconds)
    assert read_holder("") is None


def contend(url: str, rounds: int) -> list[int]:
    """Let several hosts find the lease over at one moment, again and again; return how many took it in each round."""
    leases = [lease_of(url, host(f"h{number}")) for number in range(CONTENDERS)]
    found = []
    for _ in range(rounds):
        age(url, 11)
        seen = leases[0].look()
        together = threading.Barrier(CONTENDERS)
        taken: list[int] = []

        def take(lease: PostgresLease) -> None:
            held = (lease.me.to_text("now"), seen.term, "", 10.0)  # noqa: B023
            together.wait()  # noqa: B023
            if lease._take(held):
                taken.append(1)  # noqa: B023

        threads = [threading.Thread(target=take, args=(lease,)) for lease in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append(len(taken))
        assert leases[0].look().term == seen.term + len(taken)
    for lease in leases:
        lease.give_up()
    return found


@pytest.mark.programme
def test_of_several_hosts_one_takes_the_lease(url: str) -> None:
    """All of them found it over: one gets it, and the term grows by one."""
    assert contend(url, ROUNDS) == [1] * ROUNDS


def test_control_without_a_condition_several_hosts_take_the_lease(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An UPDATE of every row gives the lease to each of them."""
    monkeypatch.setattr(lease_module, "TAKE", lease_module.TAKE.replace("WHERE term = ?", "WHERE ? IS NOT NULL OR"))
    monkeypatch.setattr(lease_module, "TAKE", lease_module.TAKE.replace("OR AND", "OR"))
    assert contend(url, 2) == [CONTENDERS] * 2


def test_a_store_that_another_host_has_is_refused(url: str) -> None:
    """Opening it for writing names who has it, and how long to wait."""
    one = lease_of(url, host("a"))
    assert one.take()
    with pytest.raises(StoreError, match=r"in use by another host, a \(m:/state\), which wrote 0 s ago.*for 10 s"):
        place_of(url).open_store(create=False, holder="/other", server_id="agtp.test")
    one.give_up()


def test_a_term_that_two_hosts_have_is_no_right_to_write(url: str) -> None:
    """
    A database that was restored to an earlier state gives a second host the term that the first one has.

    Beats, commits and numbers of the first one are refused, and it does not release what is not its own.
    """
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    writer = group_writer(store)
    sealed(writer, draft())
    change(url, "UPDATE store SET term = 0, holder = ''")
    assert other.take() and other.term == one.term == 1
    said = r"was taken over by b \(m:/state\), with term 1; this host had term 1"
    for write in (one.keep, lambda: sealed(writer, draft()), lambda: one.write_published("{}")):
        with pytest.raises(Superseded, match=said):
            write()
    assert other.read_published() == ""
    store.close()
    seen = other.look()
    assert seen.holder is not None and seen.holder.name == "b"
    other.keep()
    other.write_published("{}")
    other.give_up()
    assert other.look().is_over


def test_a_database_that_is_being_restored_is_named_as_such(url: str) -> None:
    """
    While its row is away no other host has the lease, and this one goes on when the row is back.

    A row of an earlier term is that of an earlier state, whoever had the lease then.
    """
    one = lease_of(url, host("a"))
    ended: list[Superseded] = []
    one.when_superseded = ended.append
    assert one.take() and one.term == 1
    change(url, "CREATE TABLE saved AS TABLE store", "DELETE FROM store")
    for write in (one.keep, lambda: one.write_published("{}")):
        with pytest.raises(StoreError, match="has no row in table store; restore the database"):
            write()
    change(url, "INSERT INTO store SELECT * FROM saved")
    one.keep()
    assert ended == []
    change(url, "UPDATE store SET term = 0, holder = ''")
    said = r"was restored to an earlier state: its lease has term 0 and no holder; this host had term 1"
    with pytest.raises(Superseded, match=said):
        one.keep()
    change(url, "UPDATE store SET term = 2")
    with pytest.raises(Superseded, match=r"was taken over by another host, with term 2; this host had term 1"):
        one.keep()
    assert len(ended) == 2
    one.give_up()


def test_a_beat_of_a_clock_that_went_back_does_not_keep_the_lease(url: str) -> None:
    """The database's clock was an hour ahead: the next beat of an idle host ends what it wrote then."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    one.keep(READING_SECONDS)
    one.keep()
    assert -READING_SECONDS <= one.look().age < 1 - READING_SECONDS, "what was kept beforehand stays"
    age(url, -3600)
    one.keep()
    assert other.look().age >= -READING_SECONDS
    one.give_up()


def test_a_report_of_a_clock_that_went_back_does_not_count(url: str) -> None:
    """A process that runs reports itself again in two seconds; one that was killed would count for an hour."""
    one = lease_of(url, host("a"))
    for name in ("a", "b"):
        one.report(HostProcess(id=name, name=name, place=name, version="1", state=STANDBY, settings={}))
    change(url, "UPDATE process SET beat = clock_timestamp() + interval '1 hour', schema = 1 WHERE name = 'b'")
    assert {each.name: each.is_alive for each in place_of(url).processes()} == {"a": True, "b": False}
    with closing(dial(place_of(url)._address(), writer=True)) as session:
        _require_later_programs(session, 2)
        change(url, "UPDATE process SET beat = clock_timestamp() WHERE name = 'b'")
        with pytest.raises(StoreError, match=r"these hosts run: b \(standby, version 1\)"):
            _require_later_programs(session, 2)
    one.give_up()


@each_row("name", ['ö "quoted" \\ name', "mark \U0010fffe", "x"])
def test_a_holder_of_any_name_is_fenced(tmp_path: Path, name: str) -> None:
    """What the row of the store says of this host is compared as the database keeps it."""
    server = postgres.server()
    url = server.url(server.schema(tmp_path / str(len(name))))
    place_of(url).create("agtp.test")
    one = lease_of(url, host(name))
    assert one.take()
    store = place_of(url).open_store(create=False, server_id="agtp.test", lease=one)
    sealed(group_writer(store), draft())
    one.keep()
    one.write_published(name)
    assert one.read_published() == name
    shown = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'agtphost/x'"
    assert name != "x" or server.run(shown)[0][0] == 2, "the lease and the store, by [cluster] name"
    store.close()
    assert one.look().is_over


def test_a_lease_that_is_given_up_is_heard(url: str) -> None:
    """By another host without a look; one that stops listening has no thread and no connection left."""
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    heard = threading.Semaphore(0)
    other.listen(heard.release)
    listener = other._listener
    assert listener is not None
    assert heard.acquire(timeout=60), "what happened before is looked at"
    one.give_up()
    assert heard.acquire(timeout=60)
    listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    assert postgres.server().run(listening) == [(1,)]
    other.stop_listening()
    listener._thread.join(60)
    assert not listener._thread.is_alive()
    other.give_up()


def test_a_lost_connection_of_a_listener_is_made_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears again once the database is back."""
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.01)
    one, other = lease_of(url, host("a")), lease_of(url, host("b"))
    assert one.take()
    heard = threading.Semaphore(0)
    other.listen(heard.release)
    assert heard.acquire(timeout=60)
    postgres.server().run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert heard.acquire(timeout=60)
    one.give_up()
    assert heard.acquire(timeout=60)
    other.stop_listening()
    other.give_up()


def test_a_lease_is_given_up_although_the_first_try_fails(url: str) -> None:
    """As where a lock or a disk takes longer than a statement may: the database is there, so it is tried again."""
    first, second = lease_of(url, host("a")), lease_of(url, host("b"))
    assert first.take() and not second.take()
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM store FOR UPDATE")
        thread = threading.Thread(target=first.give_up)
        thread.start()
        until(lambda: postgres.server().run("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted"))
    thread.join()
    assert second.take()
    second.give_up()
