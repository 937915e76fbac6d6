"""What makes a deployment worth committing: files beside ``host.toml`` that ``agtp init`` begins with."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from agtphost.cli import units

DIRECTORIES = ("agents", "endpoints")
"""Of a deployment: git keeps none that is empty."""

KEEP = ".gitkeep"
EXAMPLE = {
    "endpoints/greeting.toml": "greeting.toml",
    "handlers/__init__.py": None,
    "handlers/greeting.py": "greeting.py.txt",
    "tests/test_greeting.py": "test_greeting.py.txt",
}
"""An endpoint, its handler and their test, each with its template."""


def optional_sections() -> str:
    """Further sections of ``host.toml``, commented out."""
    return _template("optional.toml")


def _template(name: str) -> str:
    return files("agtphost").joinpath("cli", "templates", "init", name).read_text(encoding="utf-8")


def keep_directories(directory: Path) -> list[Path]:
    """:return: files that keep what is empty; written where they were not."""
    found = []
    for name in DIRECTORIES:
        place = directory / name
        if not any(place.iterdir()):
            (place / KEEP).touch()
            found.append(place / KEEP)
    return found


def write_scaffold(directory: Path, *, example: bool) -> list[Path]:
    """
    Write what is not there yet.

    :param directory: absolute.
    :param example: whether an endpoint is to begin with.
    :return: what was written.
    :raises OSError: something cannot be written.
    """
    texts = {".gitignore": _template("gitignore")}
    # A unit cannot name every directory: whoever wants one has another.
    with suppress(ValueError):
        texts[f"systemd/{units.SERVICE}"] = units.service_unit(directory)
    if example:
        texts |= {name: _template(template) if template else "" for name, template in EXAMPLE.items()}
    written = []
    for name, text in texts.items():
        file = directory / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            written.append(file)
    return written
