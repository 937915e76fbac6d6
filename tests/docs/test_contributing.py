"""CONTRIBUTING.rst says where a test belongs, and that is where tests are."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.rst").read_text(encoding="utf-8")
PART = TEXT.partition("Where a test belongs\n")[2].partition("Write texts\n")[0]


def directories(package: str) -> set[str]:
    """The sub-packages of a package."""
    return {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}


def astray(rooms: set[str], tested: set[str], text: str) -> list[str]:
    """What is in no place of its own, or is told of in vain."""
    named = set(re.findall(r"``tests/([a-z]+)``", text))
    faults = [f"agtphost/{room} has no tests/{room}" for room in sorted(rooms - tested)]
    faults += [f"nothing says what tests/{name} is for" for name in sorted(tested - rooms - named)]
    return faults + [f"there is no tests/{name}" for name in sorted(named - tested)]


def test_every_package_has_its_directory_and_every_directory_its_reason() -> None:
    """One obvious place for a new test."""
    assert astray(directories("agtphost"), directories("tests"), PART) == []
    for room in directories("agtphost"):
        assert list((ROOT / "tests" / room).rglob("test_*.py")), room


def test_control_what_is_astray_is_noticed() -> None:
    """A package without tests, a directory without a reason, a reason without a directory."""
    assert astray({"wire", "new"}, {"wire", "other"}, "``tests/gone``") == [
        "agtphost/new has no tests/new",
        "nothing says what tests/other is for",
        "there is no tests/gone",
    ]


def test_every_form_of_the_host_in_memory_is_where_the_text_says() -> None:
    """By the module's path and the class's name."""
    listed = re.findall(r"``tests/([a-z_/]+)\.py``: ``(\w+)``", PART)
    assert len(listed) == 6
    for path, name in listed:
        assert hasattr(import_module("tests." + path.replace("/", ".")), name)
