"""What is kept for clients whose stream breaks: whose it is, how much, and that there is never a gap."""

from __future__ import annotations

from agtphost.mcp.journal import StreamJournal


def test_what_came_after_on_its_stream() -> None:
    """In order, and of no other stream."""
    events = StreamJournal().session()
    first = events.add("1", b"")
    events.add("2", b"other")
    events.add("1", b"a")
    events.add("1", b"b", last=True)
    assert [(event.message, event.last) for _, event in events.list_after(first)] == [(b"a", False), (b"b", True)]


def test_an_id_of_another_session_means_nothing() -> None:
    """Whoever guesses it, or was told it."""
    journal = StreamJournal()
    mine, other = journal.session(), journal.session()
    key = other.add("1", b"secret")
    assert mine.find(key) is None
    assert other.find(key) is not None


def test_the_oldest_go_first_and_a_session_pays_for_itself() -> None:
    """Of one session by its own bounds; of all by that of the session that has most."""
    journal = StreamJournal(most_octets=10_000, most_octets_of_session=8_000, most_events_of_session=5)
    quiet, loud = journal.session(), journal.session()
    kept = quiet.add("1", b"q" * 100)
    keys = [loud.add("1", b"x") for _ in range(9)]
    assert len(loud) == 5
    assert loud.find(keys[0]) is None
    for _ in range(20):
        loud.add("1", b"x" * 3_000)
    assert quiet.find(kept) is not None
    assert journal.octets <= 10_000
    assert journal.octets == quiet.octets + loud.octets
    loud.end()
    assert journal.octets == quiet.octets
