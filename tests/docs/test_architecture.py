"""``docs/architecture.rst`` speaks of the tree as it is: its files, its packages, its import table."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rows import each_row
from tests.test_layering import EVERYONE, MAY_IMPORT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.rst").read_text()
PACKAGES = sorted(path.stem for path in (ROOT / "agtphost").glob("[a-z]*") if path.suffix in ("", ".py"))


def section(page: str, title: str) -> str:
    """The text under a heading, up to the next one."""
    parts = re.split(r"^(\S.*)\n[-=]{3,}\n", page, flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def named_files(page: str) -> list[str]:
    """Every path that the page names, from the root or from the package."""
    found = re.findall(r"``((?:[a-z_]+/)+[a-z_]+(?:\.[a-z]+)?)``", page)
    return sorted(
        name if name.partition("/")[0] in ("agtphost", "docs", "tests") else f"agtphost/{name}" for name in found
    )


def table(page: str) -> dict[str, set[str]]:
    """The import table: package to what it may import besides the four."""
    rows = re.findall(r"\* - ``(\w+)``\n     - .+\n     - (.+)", section(page, "The packages"))
    return {name: set() if said.startswith("nothing") else set(said.split(", ")) for name, said in rows}


@each_row("name", named_files(PAGE))
def test_a_named_file_exists(name: str) -> None:
    """It is where the page says."""
    assert (ROOT / name).exists()


def test_the_road_of_a_request_is_fourteen_files() -> None:
    """Numbered, each a module, none twice; every name in code type that is one of theirs is in their text."""
    items = re.split(r"^\d+\. ", section(PAGE, "One request in fourteen files"), flags=re.MULTILINE)[1:]
    files = [re.match(r"``(agtphost/[a-z_/]+\.py)``", item) for item in items]
    assert all(files)
    names = [found.group(1) for found in files if found is not None]
    assert len(set(names)) == len(names) == 14
    for name, item in zip(names, items, strict=True):
        text = (ROOT / name).read_text()
        spoken = item.split("\n\n")[0]
        for word in re.findall(r"``([A-Za-z_.]+)``", spoken)[1:]:
            assert re.search(rf"\b{word.rpartition('.')[2]}\b", text), f"{name} has no {word}"


def test_every_package_is_named() -> None:
    """In the drawing or above it all, and in the table with what it may import."""
    drawing = PAGE[: PAGE.index("One request in fourteen files")]
    for package in PACKAGES:
        assert re.search(rf"\b{package}\b", drawing), f"{package} is not drawn"
    assert sorted(table(PAGE)) == PACKAGES


def test_the_import_table_is_that_of_the_layering_test() -> None:
    """One table in two notations."""
    said = table(PAGE)
    assert said == {room: MAY_IMPORT[room] - EVERYONE for room in said}


def test_a_wrong_page_is_noticed() -> None:
    """The control: a file that is gone, and an import that is not allowed."""
    wrong = PAGE.replace("agtphost/wire/events.py", "agtphost/wire/gone.py").replace(
        "     - contract, search\n", "     - search\n"
    )
    assert "agtphost/wire/gone.py" in named_files(wrong)
    assert table(wrong) != table(PAGE)
