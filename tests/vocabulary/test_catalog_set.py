"""Several catalogs at once, profiles and pins: what one host validates against, and what is refused in its place."""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.catalog_files import parse_catalog
from agtphost.vocabulary.catalog_pin import Pin, place
from agtphost.vocabulary.catalog_profile import Profile, is_profile_name
from agtphost.vocabulary.catalog_set import read_catalogs
from agtphost.vocabulary.catalog_versions import common_version, compatible_version, is_version, version_of
from tests.rows import each_row

SHIPPED = Catalog.load()

HEALTH: dict[str, Any] = {
    "name": "agtp-profile-healthcare",
    "version": "1.0.0",
    "methods": {
        "PRESCRIBE": {"description": "Order a medicine for a patient.", "categories": ["transaction"]},
        "REDACT": {"description": "Remove what is private.", "categories": ["modification"]},
    },
}


def document(version: str, **verbs: Any) -> dict[str, Any]:
    """The shipped catalog under another version; a verb given as None is removed, others are merged."""
    made = copy.deepcopy(dict(SHIPPED.document()))
    made["version"] = version
    for name, members in verbs.items():
        if members is None:
            del made["verbs"][name]
        else:
            made["verbs"][name] = {"categories": ["analysis"], "description": "Do it.", **members}
    return made


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


# Versions


@each_row(
    ("value", "good"),
    [("1.2.3", True), ("0.0.0", True), ("1.2", False), ("01.2.3", False), ("1.2.3-rc1", False), ("1.2.3\n", False)]
    + [(None, False), (1.2, False), ("1.2.1234567", False), ("١.2.3", False)],
)
def test_versions_have_three_plain_numbers(value: object, good: bool) -> None:
    """API-010: MAJOR.MINOR.PATCH and nothing else."""
    assert is_version(value) is good


def test_versions_compare_by_number() -> None:
    """1.10.0 is later than 1.9.0, which text comparison would have the other way round."""
    assert version_of("1.10.0") > version_of("1.9.0")
    assert max(["1.9.0", "1.10.0"], key=version_of) == "1.10.0"


@each_row(
    ("preferred", "supported", "chosen"),
    [
        ("1.2.0", ["1.2.0", "2.0.0"], "1.2.0"),
        ("1.2.0", ["1.0.0"], "1.0.0"),
        ("1.2.0", ["1.0.0", "1.1.9", "1.3.0"], "1.1.9"),
        ("1.2.0", ["1.4.0", "1.3.0"], "1.3.0"),
        ("1.2.0", ["2.0.0"], None),
        ("1.2.0", [], None),
    ],
)
def test_what_semver_promises_is_used(preferred: str, supported: list[str], chosen: str | None) -> None:
    """API-020: the preferred version, else a neighbour of its MAJOR, else none."""
    assert compatible_version(preferred, supported) == chosen


def test_known_versions_are_matched_exactly() -> None:
    """API-020: whoever says what will do gets the highest of these."""
    assert common_version("1.2.0", {"1.0.0", "1.1.0"}, ["1.0.0", "1.1.0", "1.3.0"]) == "1.1.0"
    assert common_version("1.2.0", {"1.0.0"}, ["1.3.0"]) is None


# Successors


@pytest.mark.parametrize(
    "successors",
    [{"AUDIT": "AUDIT"}, {"AUDIT": "BOOK", "BOOK": "AUDIT"}, {"AUDIT": "BOOK", "BOOK": "HIRE", "HIRE": "BOOK"}],
)
def test_successors_that_go_round_are_refused(successors: dict[str, str]) -> None:
    """Whoever follows ``successor`` must arrive; the fault names the verbs of the circle, once."""
    verbs = {name: {"deprecated_in": "1.1.0", "successor": follows} for name, follows in successors.items()}
    with pytest.raises(CatalogError, match="leads back to itself") as caught:
        Catalog(document("1.1.0", **verbs))
    assert len(caught.value.faults) == 1


def test_successors_in_a_line_are_fine() -> None:
    """The control: a chain of three that ends, and two that end in one."""
    verbs = {
        name: {"deprecated_in": "1.1.0", "successor": follows}
        for name, follows in {"AUDIT": "BOOK", "BOOK": "HIRE", "RENT": "HIRE"}.items()
    }
    assert len(Catalog(document("1.1.0", **verbs)).warnings) == 3


@each_row("successor", [{}, [], 1, None, "AUDIT\n"])
def test_a_successor_that_is_no_name_is_refused(successor: object) -> None:
    """Whatever JSON holds there, the answer is a fault with its place, never a traceback."""
    with pytest.raises(CatalogError, match=r"verbs\.AUDIT\.successor"):
        Catalog(document("1.1.0", AUDIT={"deprecated_in": "1.1.0", "successor": successor}))


def test_a_name_that_stands_twice_is_refused_by_name() -> None:
    """Two readers would see two catalogs (duplicate keys)."""
    text = json.dumps(document("1.1.0")).replace('"AUDIT":', '"BOOK":', 1)
    with pytest.raises(CatalogError, match="'BOOK' occurs twice"):
        parse_catalog(text.encode())


def test_a_broken_text_is_refused_with_line_and_column() -> None:
    """The operator is told where to look."""
    with pytest.raises(CatalogError, match="line 2, column"):
        parse_catalog(b'{"version": "1.0.0",\n oops')


# Profiles


def test_a_profile_is_read(tmp_path: Path) -> None:
    """AGTP-256: name, version, and methods with descriptions and categories."""
    profile = Profile.load(write(tmp_path / "health.json", HEALTH))
    assert (profile.name, profile.version) == ("agtp-profile-healthcare", "1.0.0")
    assert profile.methods["PRESCRIBE"].categories == ("transaction",)


@each_row(
    ("change", "fault"),
    [
        ({"name": "healthcare"}, "name is not of the form"),
        ({"name": "agtp-profile-" + "x" * 64}, "name is not of the form"),
        ({"version": "1"}, "version is not"),
        ({"methods": {}}, "methods is missing"),
        ({"methods": ["PRESCRIBE"]}, "methods is missing"),
        ({"methods": {"DO_IT": HEALTH["methods"]["REDACT"]}}, "methods.DO_IT is not a method name"),
        ({"methods": {"GET": HEALTH["methods"]["REDACT"]}}, "methods.GET is an HTTP verb"),
        ({"methods": {"PRESCRIBE": 1}}, "methods.PRESCRIBE is not an object"),
        ({"methods": {"PRESCRIBE": {"categories": ["analysis"]}}}, "methods.PRESCRIBE.description"),
        ({"methods": {"PRESCRIBE": {"description": "x", "categories": ["magic"]}}}, "methods.PRESCRIBE.categories"),
        ({"methods": {"PRESCRIBE": {**HEALTH["methods"]["REDACT"], "oops": 1}}}, "methods.PRESCRIBE.oops"),
        ({"oops": 1}, "oops is not a member"),
    ],
)
def test_a_broken_profile_is_refused(change: dict[str, Any], fault: str) -> None:
    """Each rule, broken once, is named with its place."""
    with pytest.raises(CatalogError) as caught:
        Profile.parse({**HEALTH, **change})
    assert any(fault in found for found in caught.value.faults), caught.value.faults


def test_profile_names() -> None:
    """The drafts' own examples, and nothing that a file name or a shell would mind."""
    assert all(is_profile_name(f"agtp-profile-{name}") for name in ("healthcare", "financial", "legaltech", "a-1"))
    assert not any(is_profile_name(name) for name in ("agtp-profile-", "agtp-profile-A", "agtp-profile-a\n", "x"))


# Pins


def test_a_pin_holds_one_content(tmp_path: Path) -> None:
    """API-025: version and hash, beside the file."""
    octets = json.dumps(document("1.2.0")).encode()
    file = tmp_path / "methods.json"
    assert Pin.load_for(file) is None
    pin = Pin.for_catalog(octets, ["GONEVERB", "BOOK"])
    place(file).write_bytes(pin.octets())
    assert Pin.load_for(file) == pin == Pin(version="1.2.0", sha256=sha256(octets).hexdigest(), removed=("GONEVERB",))
    assert pin.holds(octets)
    assert not pin.holds(octets + b" ")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"version": "1.0.0", "sha256": "abc"}', b'{"version": 1, "sha256": 2, "x": 3}']
)
def test_a_damaged_pin_is_no_pin_that_was_never_there(content: bytes, tmp_path: Path) -> None:
    """Fail closed: what cannot be read does not count as absent."""
    file = tmp_path / "methods.json"
    place(file).write_bytes(content)
    with pytest.raises(CatalogError):
        Pin.load_for(file)


# All together


def test_a_host_without_settings_has_one_version() -> None:
    """API-013: the catalog that ships, alone."""
    found, faults = read_catalogs(None)
    assert (faults, found.versions) == ([], (SHIPPED.version,))
    assert found.primary is SHIPPED
    assert found.removed == found.superseded_methods == found.profile_methods == frozenset()


def test_an_alternative_catalog_becomes_the_primary_one(tmp_path: Path) -> None:
    """API-024, API-016: version 9.9.9 without AUDIT; what the shipped one had besides counts as removed."""
    file = write(tmp_path / "own.json", document("9.9.9", AUDIT=None))
    found, faults = read_catalogs(file)
    assert (faults, found.versions, found.removed) == ([], ("9.9.9",), {"AUDIT"})


def test_several_versions_are_supported_at_once(tmp_path: Path) -> None:
    """AGTP-API section 4.8: the primary first; a method of an older one is superseded, not removed."""
    new = write(tmp_path / "new.json", document("2.0.0", AUDIT=None))
    old = write(tmp_path / "old.json", document("1.1.0"))
    found, faults = read_catalogs(new, [old])
    assert (faults, found.versions) == ([], ("2.0.0", "1.1.0"))
    assert (found.superseded_methods, found.removed) == ({"AUDIT"}, frozenset())


def test_two_files_of_one_version_are_refused(tmp_path: Path) -> None:
    """A version must mean one content."""
    one, other = (write(tmp_path / name, document("1.2.0")) for name in ("a.json", "b.json"))
    _, faults = read_catalogs(one, [other])
    assert [(fault.file, "supported by another" in fault.message) for fault in faults] == [(other, True)]


def test_profiles_count_only_where_they_are_declared(tmp_path: Path) -> None:
    """AGTP-256: the file alone adds nothing; a method that the catalog has anyway adds nothing either."""
    file = write(tmp_path / "health.json", HEALTH)
    undeclared, _ = read_catalogs(None, (), [file])
    assert undeclared.profile_methods == frozenset()
    declared, faults = read_catalogs(None, (), [file], ["agtp-profile-healthcare"])
    assert (faults, declared.profile_methods) == ([], {"PRESCRIBE"})


def test_a_profile_that_no_file_has_is_named(tmp_path: Path) -> None:
    """With those that are there."""
    file = write(tmp_path / "health.json", HEALTH)
    _, faults = read_catalogs(None, (), [file, file], ["agtp-profile-financial"])
    said = [f"{fault.message} ({fault.hint})" for fault in faults]
    assert any("agtp-profile-financial" in line and "agtp-profile-healthcare" in line for line in said)
    assert any("in another file already" in line for line in said)


def test_every_file_is_read_whatever_is_wrong_with_others(tmp_path: Path) -> None:
    """All faults at once, each with its file."""
    broken = write(tmp_path / "broken.json", {})
    missing = tmp_path / "missing.json"
    profile = write(tmp_path / "profile.json", {**HEALTH, "version": "x"})
    _, faults = read_catalogs(broken, [missing], [profile], ["agtp-profile-healthcare"])
    assert {fault.file for fault in faults} == {broken, missing, profile, None}


def test_a_catalog_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    """API-025: an upgrade needs the operator's approval; the pinned content itself is taken (the control)."""
    file = write(tmp_path / "own.json", document("1.2.0"))
    place(file).write_bytes(Pin.for_catalog(file.read_bytes(), ["GONEVERB"]).octets())
    found, faults = read_catalogs(file)
    assert (faults, found.removed) == ([], {"GONEVERB"})
    write(file, document("1.3.0"))
    _, faults = read_catalogs(file)
    assert ["not the pinned content (version 1.2.0" in fault.message for fault in faults] == [True]
    assert "--upgrade" in faults[0].hint
    place(file).write_bytes(b"{}")
    _, faults = read_catalogs(file)
    assert {fault.file for fault in faults} == {place(file)}
