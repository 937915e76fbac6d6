"""A search for text passes over most records without decoding them, and finds the same ones."""

from __future__ import annotations

from cProfile import Profile
from pathlib import Path
from pstats import Stats
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import StoredRecord
from agtphost.stores import Search, open_store
from agtphost.stores.record_search import _texts
from agtphost.testing.store_drafts import KEY, draft, write_drafts
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID

CALLS = 60
"""Calls of functions for each record that lacks the text: 140 where it is decoded."""

ASIDE = "aKs .-_:'\"\\/\n\x7f<>ſKßéＡ𝔞\u0301"
"""Characters that JSON escapes, that join names, and that are equal to others in another case."""

words = some.text(ASIDE, max_size=6)
names = some.sampled_from(("mcp_server", "mcp_tool", "a2a_agent", "a2a_action", "tool", "action", "confirmed_as"))
payloads = some.fixed_dictionaries(
    {"method": some.sampled_from(("EXECUTE", "QUERY")), "path": words},
    optional={
        "reason": words,
        "explanation": words,
        "acting_principal_id": words,
        "event_type": words,
        "operator": some.fixed_dictionaries({"name": words}),
        "extra": some.dictionaries(names, words | some.integers() | some.booleans(), max_size=3),
    },
)


def stored(payload: dict[str, Any]) -> StoredRecord:
    """Return the record of a payload, signed as the host signs it."""
    signed = RecordSigner(KEY).sign(payload)
    return StoredRecord(
        chain="",
        seq=1,
        audit_id="ab" * 32,
        previous_audit_id=ZERO_AUDIT_ID,
        kind="call",
        format="jws",
        signed=signed[1],
    )


@given(payload=payloads, data=some.data())
def test_what_is_passed_over_lacks_the_text(payload: dict[str, Any], data: some.DataObject) -> None:
    """Whatever a record says, and in whatever case it is looked for: also where two members make up a name."""
    said = "\n".join(_texts(payload))
    begin = data.draw(some.integers(0, len(said)), "begin")
    part = said[begin : data.draw(some.integers(begin, min(len(said), begin + 5)), "end")]
    for text in (part, part.upper(), part.lower(), part.casefold(), data.draw(words, "other")):
        search = Search(text=(text,))
        assert search.says(stored(payload), search.words) == search.says(stored(payload)), text


def test_names_of_two_members_and_other_letters_are_found() -> None:
    """The control: some of these texts are in records, and others nowhere."""
    record = stored({"method": "EXECUTE", "path": "/", "extra": {"mcp_server": "Files", "mcp_tool": "read_it"}})
    kelvin = stored({"method": "QUERY", "path": "/", "reason": "Too many \N{KELVIN SIGN}s"})
    assert Search(text=("MANY k",)).says(kelvin, Search(text=("MANY k",)).words)
    for text, found in (("files.read_IT", True), ("s.r", True), ("files read", False), ("files.write", False)):
        search = Search(text=(text,))
        assert search.says(record, search.words) is found, text


def test_most_records_are_not_decoded(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=True)
    write_drafts(store, *(draft(reason="scope-insufficient") for _ in range(1_000)))
    reader, profile = store.reader(), Profile()
    profile.enable()
    found = reader.latest(None, 50, Search(text=("no record has this",)))
    profile.disable()
    assert found.records == [] and found.before is None
    assert Stats(profile).total_calls < CALLS * 1_000  # type: ignore[attr-defined]
    store.close()
