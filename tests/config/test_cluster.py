"""``[cluster]``: which values it takes, and that it needs a store which several hosts can share."""

from __future__ import annotations

import platform
from pathlib import Path

from agtphost.config import examine
from agtphost.config.cluster import NAME_VARIABLE
from tests.config.test_broken import HEAD
from tests.rows import each_row

DATABASE = '[store]\nurl = "postgresql://agtp@/agtp"\n'
RANGE = "[cluster] takeover_after must be a number of seconds from 3 to 60"


def problems(folder: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    """Return what is wrong with a configuration."""
    file = folder / "host.toml"
    file.write_text(HEAD + text)
    return [each.message for each in examine(file, environ or {}).problems]


@each_row(
    ("line", "said"),
    [
        *((f"takeover_after = {value}", RANGE) for value in ("0", "-1", "2.9", "60.1", "1e9", '"5"', "true", "nan")),
        ('serve = "all"', '[cluster] serve cannot be "all" in this version, in which one host serves'),
        ("serve = 1", '[cluster] serve must be "one"'),
        ('name = "a b"', "[cluster] name must be 1 to 253 printable characters without spaces"),
        ('name = "\\n"', "[cluster] name must be 1 to 253 printable characters"),
        ("name = 1", "[cluster] name must be text"),
        ('nmae = "a"', "[cluster] nmae is unknown"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, line: str, said: str) -> None:
    """The message says which values are right."""
    (found,) = problems(tmp_path, f"{DATABASE}[cluster]\n{line}\n")
    assert found.startswith(said)


@each_row(
    "line", ["takeover_after = 3", "takeover_after = 60", "takeover_after = 4.5", 'serve = "one"', 'name = "a-1"', ""]
)
def test_a_right_value_is_taken_with_postgresql_alone(tmp_path: Path, line: str) -> None:
    """A SQLite file is one host's, and so is the store of a plugin: the section is refused by name."""
    section = f"[cluster]\n{line}\n"
    assert problems(tmp_path, DATABASE + section) == []
    (found,) = problems(tmp_path, section)
    assert "[cluster]" in found and "needs a store in PostgreSQL, but [store] names a SQLite file" in found
    (found,) = problems(tmp_path, f'[store]\nplugin = "own"\n{section}')
    assert "needs a store in PostgreSQL, but [store] names a plugin" in found


def test_a_host_has_the_machines_name_unless_it_gets_another(tmp_path: Path) -> None:
    """The environment overrides the file, so that several hosts can have one file."""

    def name(text: str, environ: dict[str, str]) -> str:
        file = tmp_path / "host.toml"
        file.write_text(HEAD + DATABASE + text)
        return examine(file, environ).config.cluster.name

    assert name("", {}) == platform.node()
    assert name('[cluster]\nname = "a"\n', {}) == "a"
    assert name('[cluster]\nname = "a"\n', {NAME_VARIABLE: "b"}) == "b"
    assert name("", {NAME_VARIABLE: "b"}) == "b"
    # Without a database the variable of a shared environment changes nothing.
    assert problems(tmp_path, "", {NAME_VARIABLE: "b"}) == []
