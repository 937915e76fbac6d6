"""The method catalog: what ships with the host, and what is refused in its place."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agtphost.vocabulary.catalog import CATEGORIES, FLOOR, LEGACY, Catalog, CatalogError, is_method_name
from agtphost.vocabulary.catalog_files import load_catalog, parse_catalog
from tests.measuring import measured
from tests.rows import each_row

CATALOG = Catalog.load()

ABSENT_BEFORE = {"TRANSLATE", "MAP", "LOG", "SYNC", "SEND", "RUN", "LEARN", "COLLABORATE"}

PRIMARY_COUNTS = {
    "discovery": 43,
    "retrieval": 33,
    "analysis": 72,
    "transaction": 68,
    "modification": 67,
    "creation": 26,
    "notification": 31,
    "mechanics": 29,
    "domain_spanning": 56,
}
"""Of the 425 names of companion section 16."""

STANDARD_ADDITIONS = {
    "RECOMMEND": "analysis",
    "EMBED": "modification",
    "CHAIN": "mechanics",
    "BATCH": "mechanics",
}


def test_the_catalog_has_five_members() -> None:
    """API-001: version, embedded, legacy, categories, verbs."""
    assert set(CATALOG.document()) == {"version", "embedded", "legacy", "categories", "verbs"}
    assert CATALOG.version == "1.1.0"


def test_the_floor_is_embedded() -> None:
    """AGTP-183, API-001: eighteen methods, seven cognitive, six mechanics, five lifecycle."""
    assert sorted(CATALOG.embedded) == sorted(FLOOR)
    groups = [CATALOG.entries[name].floor["group"] for name in FLOOR]  # type: ignore[index]
    assert [groups.count(group) for group in ("cognitive", "mechanics", "lifecycle")] == [7, 6, 5]


def test_the_names_of_the_published_catalog_are_all_there() -> None:
    """Companion section 16: 425 names by primary category, and those the drafts add."""
    added = ABSENT_BEFORE | set(STANDARD_ADDITIONS)
    counts = dict.fromkeys(CATEGORIES, 0)
    for name, entry in CATALOG.entries.items():
        if name not in added:
            counts[entry.categories[0]] += 1
    assert counts == PRIMARY_COUNTS
    assert CATALOG.methods >= ABSENT_BEFORE
    assert len(CATALOG.methods) == 425 + len(added)


@each_row(
    ("name", "categories"),
    [
        ("SUBSCRIBE", ("retrieval", "notification", "mechanics")),
        ("ROLLBACK", ("modification", "mechanics", "domain_spanning")),
        ("DISCOVER", ("discovery", "mechanics")),
        ("ATTRIBUTE", ("analysis", "notification")),
        ("BOOK", ("transaction",)),
    ],
)
def test_further_categories_are_kept(name: str, categories: tuple[str, ...]) -> None:
    """API-003: the first category is the primary one, others follow."""
    assert CATALOG.entries[name].categories == categories


def test_every_description_says_something_of_its_own() -> None:
    """API-003: one sentence each, no two alike."""
    texts = [entry.description for entry in CATALOG.entries.values()]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(".") and 20 < len(text) < 140 and text[0].isupper() for text in texts)


def test_all_fifty_standard_methods_are_catalogued() -> None:
    """METH-066, METH-052, AGTP-255: each with its Table 51 row."""
    standard = {name: entry.standard for name, entry in CATALOG.entries.items() if entry.standard is not None}
    assert len(standard) == 50
    assert {row["category"] for row in standard.values()} == {
        *("acquire", "compute", "transact", "integrate", "communicate", "orchestrate"),
    }
    assert standard["PULL"] == {"category": "acquire", "state_modifying": True, "idempotent": False}
    assert standard["BATCH"]["idempotent"] == "conditional"
    assert {"BOOK", "SCHEDULE", "LEARN", "COLLABORATE"} <= CATALOG.methods


def test_the_floor_carries_the_summary_table() -> None:
    """AGTP-251, AGTP-257: each row as core v08 section 7.2.20 tabulates it."""
    assert CATALOG.entries["NOTIFY"].floor == {
        "group": "mechanics",
        "category": "communicate",
        "state_modifying": False,
        "idempotent": False,
        "errors": [400, 404],
    }
    assert CATALOG.entries["REVOKE"].floor["category"] == "lifecycle"  # type: ignore[index]
    assert CATALOG.entries["EXECUTE"].floor["idempotent"] == "per_action"  # type: ignore[index]
    assert [name for name, entry in CATALOG.entries.items() if entry.floor is not None] == sorted(FLOOR)


def test_legacy_verbs_name_what_to_say_instead() -> None:
    """API-002: they are not methods of the catalog, only pointers to some."""
    assert CATALOG.legacy == {
        "GET": "FETCH",
        "POST": "CREATE",
        "PUT": "REPLACE",
        "DELETE": "REMOVE",
        "PATCH": "MODIFY",
    }
    assert not any(CATALOG.knows(name) for name in LEGACY)


def test_membership() -> None:
    """AGTP-252, API-004: exact names only."""
    assert CATALOG.knows("QUERY")
    assert not any(CATALOG.knows(name) for name in ("query", "X-NEGOTIATE", "FROB", "QUERY\n", ""))
    assert CATALOG.entry("FROB") is None


@each_row(
    ("text", "good"),
    [("ABC", True), ("A" * 32, True), ("AB", False), ("A" * 33, False), ("DO_IT", False), ("book", False)]
    + [("BOOK\n", False), ("BÖOK", False), ("X-A", False), ("", False)],
)
def test_the_lexical_rule(text: str, good: bool) -> None:
    """API-005: upper-case ASCII letters, 3 to 32."""
    assert is_method_name(text) is good


@each_row(
    ("name", "first"),
    [
        ("BOKO", "BOOK"),
        ("RESERV", "RESERVE"),
        ("GET", "FETCH"),
        ("X-NEGOTIATE", "NEGOTIATE"),
        ("query", "QUERY"),
    ],
)
def test_close_matches(name: str, first: str) -> None:
    """The body of a 459 names what may have been meant."""
    assert CATALOG.close_matches(name)[0] == first
    assert len(CATALOG.close_matches(name)) <= 3


def test_what_resembles_nothing_has_no_close_match() -> None:
    """No guess is better than a wild one."""
    assert CATALOG.close_matches("ZZZZZZ") == ()
    assert CATALOG.close_matches("") == ()
    assert CATALOG.close_matches("+-!") == ()


@measured
def test_close_matches_cost_little_whatever_is_asked() -> None:
    """A flood of 459 must not cost more than the requests themselves: at most two milliseconds each."""
    names = ["A" * 64, "INTERCOMMUNICATIONALIZATIONSTUDY", "RESTOREDINGATE" * 4, "\x00" * 64]
    best = min(_seconds(lambda: [CATALOG.close_matches(name) for name in names]) for _ in range(5))
    assert best < 4 * 0.002


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def small() -> dict[str, Any]:
    """A catalog with little more than the floor."""
    verbs = {name: {"categories": ["mechanics"], "description": "Does it."} for name in FLOOR}
    for name in ("FETCH", "CREATE", "REPLACE", "REMOVE", "MODIFY", "AUDIT", "CHECK"):
        verbs[name] = {"categories": ["analysis"], "description": "Does it."}
    return {
        "version": "9.9.9",
        "embedded": list(FLOOR),
        "legacy": copy.deepcopy(CATALOG.document()["legacy"]),
        "categories": dict(CATALOG.document()["categories"]),
        "verbs": verbs,
    }


def test_an_alternative_catalog_is_read(tmp_path: Path) -> None:
    """API-024, API-016: its version is what it says, and what it lacks is unknown."""
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(small()))
    catalog = load_catalog(path)
    assert catalog.version == "9.9.9"
    assert not catalog.knows("BOOK")
    assert catalog.close_matches("BOOK") == ()


def test_a_catalog_may_call_its_fifth_member_methods() -> None:
    """Companion section 16: deployed catalogs do."""
    document = small()
    document["methods"] = document.pop("verbs")
    assert Catalog(document).knows("AUDIT")


def test_deprecation_metadata() -> None:
    """API-011, API-015: a deprecated method is still known, and has a warning to send."""
    document = small()
    document["verbs"]["AUDIT"] |= {"deprecated_in": "9.1.0", "removed_in": "10.0.0", "successor": "CHECK"}
    document["verbs"]["CHECK"] |= {"deprecated_in": "9.1.0"}
    catalog = Catalog(document)
    assert catalog.knows("AUDIT")
    assert catalog.warnings == {
        "AUDIT": "deprecated; successor=CHECK; removed_in=10.0.0",
        "CHECK": "deprecated",
    }
    assert Catalog(small()).warnings == {}


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = to

    return change


def _without(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]

    return change


VERB = {"categories": ["analysis"], "description": "Does it."}

BROKEN = [
    (_without("version"), "version is not"),
    (_set("version", to="1.1"), "version is not"),
    (_set("version", to="01.1.0"), "version is not"),
    (_set("extra", to=1), "extra is not a member"),
    (_without("verbs"), "verbs is missing"),
    (_set("verbs", to=[]), "verbs is missing"),
    (_set("embedded", to=["QUERY"]), "embedded is not"),
    (_without("verbs", "QUERY"), "lacks the floor method QUERY"),
    (_without("legacy", "PUT"), "legacy does not list"),
    (_set("legacy", "GET", to={"preferred": "FROB"}), "legacy.GET.preferred"),
    (_set("legacy", "GET", to="FETCH"), "legacy.GET.preferred"),
    (_without("categories", "creation"), "categories are not the nine"),
    (_set("categories", "creation", to=""), "categories.creation"),
    (_set("verbs", "DO_IT", to=VERB), "verbs.DO_IT is not a method name"),
    (_set("verbs", "AB", to=VERB), "verbs.AB is not a method name"),
    (_set("verbs", "A" * 33, to=VERB), "is not a method name"),
    (_set("verbs", "GET", to=VERB), "verbs.GET is an HTTP verb"),
    (_set("verbs", "AUDIT", to="text"), "verbs.AUDIT is not an object"),
    (_set("verbs", "AUDIT", "description", to=" "), "verbs.AUDIT.description"),
    (_set("verbs", "AUDIT", "categories", to=[]), "verbs.AUDIT.categories"),
    (_set("verbs", "AUDIT", "categories", to=["magic"]), "verbs.AUDIT.categories"),
    (_set("verbs", "AUDIT", "categories", to="analysis"), "verbs.AUDIT.categories"),
    (_set("verbs", "AUDIT", "categories", to=[{}]), "verbs.AUDIT.categories"),
    (_set("verbs", "AUDIT", "deprecated_in", to="soon"), "verbs.AUDIT.deprecated_in"),
    (_set("verbs", "AUDIT", "removed_in", to="2.0.0"), "but no deprecated_in"),
    (_set("verbs", "AUDIT", "successor", to="FROB"), "verbs.AUDIT.successor"),
    (_set("verbs", "AUDIT", "oops", to=1), "verbs.AUDIT.oops is unknown"),
    (_set("verbs", "AUDIT", "floor", to=1), "verbs.AUDIT.floor"),
]


@each_row(("change", "fault"), BROKEN, ids=[fault for _, fault in BROKEN])
def test_a_broken_catalog_is_refused(change: Callable[[dict[str, Any]], None], fault: str) -> None:
    """API-001, API-003, API-005: each rule, broken once, is named."""
    document = small()
    change(document)
    with pytest.raises(CatalogError) as caught:
        Catalog(document)
    assert any(fault in found for found in caught.value.faults)


def test_the_small_catalog_is_sound() -> None:
    """The control: what the broken ones start from passes."""
    assert Catalog(small()).version == "9.9.9"


def test_all_faults_are_reported_at_once() -> None:
    """Nobody should have to run it ten times."""
    document = small()
    for change, _ in (BROKEN[0], BROKEN[3], BROKEN[13]):
        change(document)
    with pytest.raises(CatalogError) as caught:
        Catalog(document)
    assert len(caught.value.faults) == 3


@each_row("octets", [b"", b"{", b"[]", b'{"version": "1", "version": "2"}', b"\xff"])
def test_what_is_no_json_object_is_refused(octets: bytes) -> None:
    """The strict decoder reads catalogs too."""
    with pytest.raises(CatalogError):
        parse_catalog(octets)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """With the reason, not a traceback."""
    with pytest.raises(CatalogError, match="cannot be read"):
        load_catalog(tmp_path / "none.json")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A catalog has a size that makes sense."""
    path = tmp_path / "catalog.json"
    with path.open("wb") as file:
        file.truncate(5 << 20)
    with pytest.raises(CatalogError, match="larger"):
        load_catalog(path)
