"""Files next to ``host.toml`` with which ``agtp init`` starts a deployment that is worth committing."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from agtphost.cli import units

DIRECTORIES = ("agents", "endpoints")
"""Directories of a deployment; git keeps no empty ones."""

KEEP = ".gitkeep"
EXAMPLE = {
    "endpoints/greeting.toml": "greeting.toml",
    "handlers/__init__.py": None,
    "handlers/greeting.py": "greeting.py.txt",
    "tests/test_greeting.py": "test_greeting.py.txt",
}
"""Files of an example endpoint with handler and test, each with its template."""


def optional_sections() -> str:
    """Return further sections of ``host.toml``, as comments."""
    return _template("optional.toml")


def _template(name: str) -> str:
    return files("agtphost").joinpath("cli", "templates", "init", name).read_text(encoding="utf-8")


def keep_directories(directory: Path) -> list[Path]:
    """
    Create a file in each empty directory, so that git keeps it.

    :return: the created files.
    """
    found = []
    for name in DIRECTORIES:
        place = directory / name
        if not any(place.iterdir()):
            (place / KEEP).touch()
            found.append(place / KEEP)
    return found


def write_scaffold(directory: Path, *, example: bool) -> list[Path]:
    """
    Write the files that do not exist yet.

    :param directory: the deployment, as an absolute path.
    :param example: whether to write an example endpoint.
    :return: the written files.
    :raises OSError: a file cannot be written.
    """
    texts = {".gitignore": _template("gitignore")}
    # A unit cannot name every directory; without a unit the deployment is still complete.
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
