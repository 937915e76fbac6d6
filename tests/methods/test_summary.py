"""SUMMARIZE chooses what a text says itself (core v08 section 7.2.5)."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.methods.cognitive.documents import ReadableDocument
from agtphost.methods.cognitive.summary import LENGTHS, SMALL, SummaryOptions, summarize
from agtphost.stores import MemoryStore
from tests.methods.floor_hosts import FloorHost, body_of
from tests.methods.hosts import reading
from tests.rows import each_row

TEXT = " ".join(
    f"The engine number {n} of the ship burns {n * 3} litres of oil. The crew of deck {n} paints the hull in spring."
    f" Winter storms delay the ship by {n} days."
    for n in range(1, 9)
)


def test_a_summary_says_what_its_source_says() -> None:
    """Each sentence of it stands in the source, and the hash is the source's (AGTP-205)."""
    found = FloorHost().result("SUMMARIZE", source=TEXT)
    assert found["source_hash"] == sha256(TEXT.encode()).hexdigest()
    assert 0 < found["confidence"] <= 1
    assert all(sentence in TEXT for sentence in re.split(r"(?<=\.) ", found["summary"]))
    assert found == FloorHost().result("SUMMARIZE", source=TEXT)


def test_lengths_grow() -> None:
    """Brief is shorter than standard, and that than detailed (AGTP-205)."""
    host = FloorHost()
    sizes = [len(host.result("SUMMARIZE", source=TEXT, length=length)["summary"]) for length in LENGTHS]
    assert sizes == sorted(set(sizes))
    assert host.result("SUMMARIZE", source=TEXT)["length"] == "standard"


def test_the_focus_moves_it() -> None:
    """``focus`` brings what it names into the summary (AGTP-205)."""
    host = FloorHost()
    for focus, word in [("engine oil", "oil"), ("crew painting", "paints"), ("winter storms", "storms")]:
        summary = host.result("SUMMARIZE", source=TEXT, length="brief", focus=focus)["summary"]
        assert summary.count(word) >= 2


def test_the_formats() -> None:
    """Bullets are lines, structured has a headline and points, prose is text (AGTP-205)."""
    host = FloorHost()
    bullets = host.result("SUMMARIZE", source=TEXT, format="bullets")["summary"]
    assert all(line.startswith("- ") for line in bullets.splitlines())
    structured = host.result("SUMMARIZE", source=TEXT, format="structured")["summary"]
    assert set(structured) == {"headline", "points", "keywords"}
    assert isinstance(host.result("SUMMARIZE", source=TEXT, format="prose")["summary"], str)


def test_the_audience_is_minded() -> None:
    """For a general audience short, plain sentences go first (AGTP-205)."""
    heavy = "Thermodynamically irreversible combustion characteristics necessitate recalibration of every engine"
    text = f"{heavy}. Engines burn oil. Engines need oil. Comprehensive recalibration necessitates engines again."
    options = {"length": "brief", "focus": ""}
    plain = summarize(text, SummaryOptions(plain=True, **options), "prose")["summary"]
    expert = summarize(text, SummaryOptions(plain=False, **options), "prose")["summary"]
    assert len(plain) < len(expert)


@each_row(
    ("name", "value"),
    [("length", "huge"), ("format", "xml"), ("source", ""), ("source", 7), ("source", "x " * 100_001), ("focus", 3)],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each names its parameter (AGTP-205)."""
    answer = FloorHost().ask("SUMMARIZE", **{"source": TEXT, name: value})
    assert (answer.status, body_of(answer)["parameter"]) == (422, name)


def test_a_document_of_the_library_is_a_source() -> None:
    """``document:NAME`` names what QUERY cites; nothing else of the machine can be named."""
    host = FloorHost(documents=[ReadableDocument(name="a/ship.txt", text=TEXT)])
    found = host.result("SUMMARIZE", source="document:a/ship.txt")
    assert found["source_hash"] == sha256(TEXT.encode()).hexdigest()
    for source in (
        "document:../../etc/passwd",
        "document:",
        "https://example.com/a",
        "file:///etc/passwd",
        "HTTP://x/",
    ):
        assert host.refused("SUMMARIZE", source=source) == (422, "source-unresolved")


def test_a_record_is_a_source_under_the_rules_of_inspect() -> None:
    """An Audit-ID is read through INSPECT, so that its access rules hold; a missing one is 404."""
    host = FloorHost(records=reading(MemoryStore()))
    assert host.refused("SUMMARIZE", source="0" * 64) == (404, "record-not-found")
    assert host.refused("SUMMARIZE", source=f"audit:{'1' * 64}") == (404, "record-not-found")
    methods = [draft.payload["method"] for draft in host.ledger.drafts]
    assert methods.count("INSPECT") == 2


def test_long_sources_are_worked_on_aside() -> None:
    """The reactor does not wait for long texts."""
    host = FloorHost()
    host.result("SUMMARIZE", source="Short. Text.")
    assert host.clock.offload_count == 0
    host.result("SUMMARIZE", source=(TEXT * 10)[: SMALL * 2])
    assert host.clock.offload_count == 1


@settings(max_examples=60, deadline=None)
@given(text=st.text(min_size=1, max_size=400).filter(str.strip), form=st.sampled_from(["prose", "bullets"]))
def test_every_text_has_a_summary(text: str, form: str) -> None:
    """No text breaks it, and none grows."""
    found = summarize(text, SummaryOptions(length="detailed", focus="", plain=False), form)
    assert 0 <= found["confidence"] <= 1
    assert found["sentences"] <= found["sentences_in_source"]


def test_uris_of_the_host_itself_are_read() -> None:
    """An ``agtp:`` URI of this host is what the caller could read there; any other host's is not fetched."""
    host = FloorHost(server_id="host.test")
    for uri, word in (("agtp://host.test/agents/desk", "agtp-identity"), ("agtp://host.test", "DISCOVER /")):
        found = host.result("SUMMARIZE", source=uri, length="detailed")
        assert word in found["summary"]
    for uri in ("agtp://other.test/agents/desk", "agtp://host.test/agents/nobody", "agtp://host.test/x", "agtp:"):
        assert host.ask("SUMMARIZE", source=uri).status in (404, 422)
