"""Settings of plugins: what a factory declares, and how each wrong one is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from agtphost.host.plugin_settings import UnusableSchema, WrongSettings, read_settings
from tests.rows import each_row

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["titles"],
    "properties": {
        "titles": {"type": "array", "items": {"type": "string"}},
        "limit": {"type": "integer", "maximum": 10},
        "shelf": {"type": "object", "additionalProperties": False, "properties": {"place": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Shelf:
    place: str
    width: float = 1.0


@dataclass(frozen=True)
class Settings:
    titles: frozenset[str]
    limit: int = 5
    file: Path | None = None
    shelf: Shelf | None = None
    more: tuple[Shelf, ...] = ()
    names: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.limit > 10:
            raise ValueError("limit is more than 10")


def factory(declared: object) -> Any:
    def make(settings: Any) -> Any:
        return settings

    if declared is not None:
        make.settings_schema = declared  # type: ignore[attr-defined]
    return make


def faults(declared: object, settings: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str, str]]:
    with pytest.raises(WrongSettings) as caught:
        read_settings(factory(declared), settings)
    return [(fault.location, fault.message, fault.hint) for fault in caught.value.faults]


def test_settings_without_a_schema_are_a_dictionary() -> None:
    """The factory gets a copy of what the file has."""
    given = {"anything": [1]}
    read = read_settings(factory(None), given)
    assert read == given and read is not given


def test_frozen_settings_are_read() -> None:
    """A configuration holds mappings and lists that nothing can change."""
    frozen = MappingProxyType({"titles": ("Emma",), "shelf": MappingProxyType({"place": "A3"})})
    plain = {"titles": ["Emma"], "shelf": {"place": "A3"}}
    assert read_settings(factory(None), frozen) == read_settings(factory(SCHEMA), frozen) == plain
    assert read_settings(factory(Settings), frozen) == Settings(titles=frozenset({"Emma"}), shelf=Shelf("A3"))


def test_settings_that_follow_a_json_schema_are_a_dictionary() -> None:
    """A JSON schema checks, and changes nothing."""
    assert read_settings(factory(SCHEMA), {"titles": ["Emma"], "limit": 3}) == {"titles": ["Emma"], "limit": 3}


def test_settings_that_follow_a_dataclass_are_an_instance_of_it() -> None:
    """Lists become sets and tuples, texts paths, tables dataclasses; whole numbers may stand for floats."""
    given = {
        "titles": ["Emma", "Emma"],
        "file": "/srv/books",
        "shelf": {"place": "A3", "width": 2},
        "more": [{"place": "A4"}],
        "names": {"a": 1},
    }
    assert read_settings(factory(Settings), given) == Settings(
        titles=frozenset({"Emma"}),
        file=Path("/srv/books"),
        shelf=Shelf("A3", 2.0),
        more=(Shelf("A4"),),
        names={"a": 1},
    )


WRONG: list[tuple[object, Mapping[str, Any], tuple[str | int, ...], str]] = [
    (SCHEMA, {"titles": 7}, ("titles",), "is not of type array"),
    (SCHEMA, {"titles": ["a", 7]}, ("titles", 1), "is not of type string"),
    (SCHEMA, {"titles": [], "limit": 11}, ("limit",), "is more than 10"),
    (SCHEMA, {}, (), "has no property 'titles'"),
    (SCHEMA, {"titles": [], "limits": 1}, ("limits",), "is unknown"),
    (SCHEMA, {"titles": [], "shelf": {"places": "A"}}, ("shelf", "places"), "is unknown"),
    (Settings, {"titles": 7}, ("titles",), "must be a list, not 7"),
    (Settings, {"titles": ["a", 7]}, ("titles", 1), "must be text, not 7"),
    (Settings, {"titles": [], "limit": "7"}, ("limit",), "must be a whole number, not '7'"),
    (Settings, {"titles": [], "limit": True}, ("limit",), "must be a whole number, not true"),
    (Settings, {}, (), "misses titles"),
    (Settings, {"titles": [], "limits": 1}, ("limits",), "is unknown"),
    (Settings, {"titles": [], "shelf": {"place": "A", "with": 1}}, ("shelf", "with"), "is unknown"),
    (Settings, {"titles": [], "shelf": {"width": 1}}, ("shelf",), "misses place"),
    (Settings, {"titles": [], "shelf": 7}, ("shelf",), "must be a table, not 7"),
    (Settings, {"titles": [], "more": [{"place": "A", "wide": 1}]}, ("more", 0, "wide"), "is unknown"),
    (Settings, {"titles": [], "names": {"a": "b"}}, ("names", "a"), "must be a whole number, not 'b'"),
    (Settings, {"titles": [], "limit": 11}, (), "limit is more than 10"),
]


@each_row("declared, settings, location, message", WRONG)
def test_a_wrong_setting_is_named(
    declared: object, settings: Mapping[str, Any], location: tuple[str | int, ...], message: str
) -> None:
    """Each fault has the location of its key."""
    assert [(place, text) for place, text, _ in faults(declared, settings)] == [(location, message)]


def test_every_wrong_setting_is_named() -> None:
    """An operator hears of all of them together, and of the key that was meant."""
    for declared in (SCHEMA, Settings):
        found = faults(declared, {"titles": [], "limitt": 1, "xyz": 2})
        assert [place for place, _, _ in found] == [("limitt",), ("xyz",)]
        assert found[0][2] == 'did you mean "limit"?' and "known here" in found[1][2]
        assert len(faults(declared, {"titles": 7, "limit": "a"})) == 2


@each_row("declared", [{"type": "strange"}, {"type": 7}, 7, "Settings", Shelf("A3"), int])
def test_a_declaration_that_declares_nothing_is_the_plugins_fault(declared: object) -> None:
    """No settings can follow it, and no key of the operator's is blamed."""
    with pytest.raises(UnusableSchema, match="settings_schema"):
        read_settings(factory(declared), {})


def test_a_field_that_cannot_be_read_is_the_plugins_fault() -> None:
    """A dataclass whose annotation names nothing."""

    @dataclass
    class Odd:
        value: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UnusableSchema, match="Odd"):
        read_settings(factory(Odd), {"value": 1})
