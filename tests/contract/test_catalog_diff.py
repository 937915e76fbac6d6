"""What changes between catalogs, which version steps the changes need, and what of a deployment they break."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.catalog_diff import (
    Artifact,
    Bump,
    CatalogConflict,
    Kind,
    Role,
    compare,
    conflicts,
)
from agtphost.vocabulary.catalog import FLOOR, Catalog
from agtphost.vocabulary.catalog_versions import common_version
from agtphost.vocabulary.tomltext import read
from tests.rows import each_row

OLD = "1.1.0"


def document(version: str = OLD, **verbs: Any) -> dict[str, Any]:
    """The shipped catalog under another version; a verb given as None is removed, others are merged."""
    made = copy.deepcopy(dict(Catalog.load().document()))
    made["version"] = version
    for name, members in verbs.items():
        if members is None:
            del made["verbs"][name]
        else:
            fallback = {"categories": ["creation"], "description": "Do something new."}
            made["verbs"][name] = {**made["verbs"].get(name, fallback), **members}
    return made


def catalog(version: str = OLD, **verbs: Any) -> Catalog:
    return Catalog(document(version, **verbs))


def artifact(role: Role, text: str, file: str = "a.toml") -> Artifact:
    return Artifact(role=role, file=file, document=read(text))


def brief(found: list[CatalogConflict]) -> list[tuple[str, int, str, bool]]:
    return [(item.kind.value, item.line, item.method, item.breaking) for item in found]


def test_the_same_catalog_has_no_difference() -> None:
    """Nothing is reported, and nothing is needed (API-021)."""
    found = compare(catalog(), catalog())
    assert (found.added, found.removed, found.deprecated, found.changed) == ((), (), (), ())
    assert found.needed is Bump.NONE
    assert found.violations == ()


def test_added_removed_and_deprecated_methods_are_listed() -> None:
    """Three lists, each in alphabetical order (API-021)."""
    old = catalog(BOOK={"deprecated_in": OLD, "successor": "RESERVE"})
    new = catalog("2.0.0", BOOK=None, ZIP={}, ABRIDGE={}, HIRE={"deprecated_in": "2.0.0"})
    found = compare(old, new)
    assert found.added == ("ABRIDGE", "ZIP")
    assert found.removed == ("BOOK",)
    assert found.deprecated == ("HIRE",)
    assert [(item.method, item.member) for item in found.changed] == [("HIRE", "deprecated_in")]
    assert found.violations == ()
    assert found.document()["needed_bump"] == "major"


@each_row(
    ("version", "verbs", "needed", "broken"),
    [
        ("1.1.1", {"BOOK": {"description": "Reserve a place."}}, Bump.PATCH, False),
        ("1.1.0", {"BOOK": {"description": "Reserve a place."}}, Bump.PATCH, True),
        ("1.1.1", {"BOOK": {"categories": ["creation"]}}, Bump.PATCH, False),
        ("1.2.0", {"ZIP": {}}, Bump.MINOR, False),
        ("1.1.1", {"ZIP": {}}, Bump.MINOR, True),
        ("1.1.9", {"BOOK": {"deprecated_in": "1.1.9"}}, Bump.MINOR, True),
        ("1.2.0", {"BOOK": {"deprecated_in": "1.2.0"}}, Bump.MINOR, False),
        ("1.2.0", {"BOOK": {"deprecated_in": "1.0.0"}}, Bump.MINOR, True),
        ("1.2.0", {"BOOK": {"deprecated_in": "1.3.0"}}, Bump.MINOR, True),
        ("1.2.0", {"BOOK": None}, Bump.MAJOR, True),
        ("2.0.0", {"BOOK": None}, Bump.MAJOR, True),
        ("1.0.9", {}, Bump.NONE, True),
        ("1.1.1", {}, Bump.NONE, False),
    ],
)
def test_a_version_step_that_breaks_the_rule_is_flagged(
    version: str, verbs: dict[str, Any], needed: Bump, broken: bool
) -> None:
    """Editorial changes need PATCH, additions and deprecations MINOR, removals MAJOR and a warning before (API-010)."""
    found = compare(catalog(), catalog(version, **verbs))
    assert found.needed is needed
    assert bool(found.violations) is broken


def test_a_removal_before_its_announced_version_is_flagged() -> None:
    """``removed_in`` is a promise (AGTP-API section 4.2)."""
    old = catalog(BOOK={"deprecated_in": "1.0.0", "removed_in": "3.0.0"})
    assert compare(old, catalog("3.0.0", BOOK=None)).violations == ()
    assert "3.0.0 was announced" in compare(old, catalog("2.0.0", BOOK=None)).violations[0]


@given(st.sets(st.sampled_from(sorted(Catalog.load().methods - set(FLOOR) - {"FETCH", "CREATE"})), max_size=8))
def test_what_one_way_adds_the_other_way_removes(names: set[str]) -> None:
    """The diff is symmetric in additions and removals."""
    full = document()
    legacy = {entry["preferred"] for entry in full["legacy"].values()}
    fewer = catalog("2.0.0", **dict.fromkeys(names - legacy))
    forth, back = compare(Catalog(full), fewer), compare(fewer, Catalog(full))
    assert set(forth.removed) == set(back.added) == names - legacy
    assert forth.added == back.removed == ()


# The deployment

ENDPOINTS = """\
[[endpoint]]
method = "BOOK"
path = "/room"

[[endpoint]]
method = "RESERVE"
path = "/zips/{zip}/Z-I_P"

[[endpoint]]
method = "HIRE"
path = "/people"
[endpoint.deprecated]
deprecated_in = "1"
successor = { method = "BOOK", path = "/people" }
"""
HOST = """\
[host]
server_id = "localhost"
[policies.methods]
allow = "*"
disallow = [
    "QUERY",
    "BOOK",
]
[policies.methods.aliases]
GET = "BOOK"
ZIP = "RESERVE"
[[policies.methods.redirects]]
from_method = "RESERVE"
to_method = "BOOK"
to_path = "/zip"
"""
RECIPES = """\
[[recipe]]
name = "trip"
[[recipe.steps]]
method = "QUERY"
path = "/room"
[[recipe.steps]]
method = "BOOK"
path = "/room/{id}"
"""


def upgraded() -> Catalog:
    return catalog("2.0.0", BOOK=None, ZIP={}, HIRE={"deprecated_in": "2.0.0", "successor": "RENT"})


def test_conflicts_of_all_four_kinds_are_found_with_their_lines() -> None:
    """Path, endpoint, recipe and policy conflicts; deprecated methods warn and do not break (API-022)."""
    old = catalog(BOOK={"deprecated_in": OLD, "successor": "RESERVE"})
    found = conflicts(
        [
            artifact(Role.ENDPOINTS, ENDPOINTS, "1"),
            artifact(Role.HOST, HOST, "2"),
            artifact(Role.RECIPES, RECIPES, "3"),
        ],
        old,
        upgraded(),
    )
    assert brief(found) == [
        ("endpoint", 2, "BOOK", True),
        ("path", 7, "ZIP", True),
        ("endpoint", 10, "HIRE", False),
        ("endpoint", 14, "BOOK", True),
        ("policy", 7, "BOOK", True),
        ("policy", 10, "BOOK", True),
        ("policy", 11, "ZIP", True),
        ("policy", 14, "BOOK", True),
        ("path", 15, "ZIP", True),
        ("recipe", 7, "BOOK", True),
    ]
    assert "its successor RESERVE" in found[0].message
    assert found[0].document()["kind"] == Kind.ENDPOINT.value


def test_what_stays_and_custom_methods_are_no_conflict() -> None:
    """The same deployment under the same catalog has none; a removed method declared custom is not missed."""
    everything = [artifact(Role.ENDPOINTS, ENDPOINTS), artifact(Role.HOST, HOST), artifact(Role.RECIPES, RECIPES)]
    assert conflicts(everything, catalog(), catalog()) == []
    text = '[policies.methods]\ncustom = ["BOOK"]'
    custom = [artifact(Role.HOST, text), artifact(Role.ENDPOINTS, 'method = "BOOK"\npath = "/room"')]
    assert conflicts(custom, catalog(), catalog("2.0.0", BOOK=None)) == []


@each_row(
    ("preferred", "known", "supported", "chosen"),
    [
        ("1.2.0", ["1.0.0", "1.2.0"], ["1.2.0", "2.0.0"], "1.2.0"),
        ("1.2.0", ["1.0.0", "1.2.0"], ["1.0.0"], "1.0.0"),
        ("9.0.0", ["1.9.0", "1.10.0"], ["1.9.0", "1.10.0"], "1.10.0"),
        ("1.2.0", ["1.0.0", "1.2.0"], ["3.0.0"], None),
    ],
)
def test_the_version_for_talking_to_a_server(
    preferred: str, known: list[str], supported: list[str], chosen: str | None
) -> None:
    """The preferred one, else the highest common one by number, else none (API-020)."""
    assert common_version(preferred, known, supported) == chosen
