"""The sample deployment and the pages of the documentation, in a wheel or a checkout."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import agtphost
from agtphost import extras
from agtphost.vocabulary.tomltext import string_text

_PACKAGE = Path(agtphost.__file__).parent
_IN_CHECKOUT = {"sample": "etc", "docs": "docs"}

SAMPLE = ("agents", "endpoints", "handlers", "mcp", "methods", "proposals", "recipes.toml")
"""Files and directories of the sample, besides ``host.toml``, that a deployment copies."""


def folder(name: str) -> Path:
    """
    Return a shipped directory: below the package in a wheel, next to it in a checkout.

    :param name: ``sample`` or ``docs``.
    """
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / _IN_CHECKOUT[name]


@dataclass(frozen=True, kw_only=True)
class SamplePart:
    """A part of the sample that needs an optional package."""

    package: str
    what: str
    lines: str
    """Pattern of the lines of ``host.toml`` for this part."""

    files: Sequence[str] = ()
    """Files that are useless without this part."""


PARTS = (
    SamplePart(package="mcp", what="the MCP server", lines=r"^\[\[mcp\.server\]\]\n(?:.+\n)*"),
    SamplePart(
        package="jmespath",
        what="recipes and negotiation",
        lines=r"^\[recipes\]\n(?:.+\n)*|^synthesis_enabled = true\n",
        files=("endpoints/reading.toml",),
    ),
)


def missing_parts() -> list[SamplePart]:
    """Return the parts of the sample whose packages are not installed."""
    return [part for part in PARTS if not extras.is_installed(part.package)]


def remedy(parts: Sequence[SamplePart]) -> str:
    """Return a sentence on missing parts and how to install them; empty if there are none."""
    if not parts:
        return ""
    return f"without {', '.join(part.what for part in parts)}: pip install 'agtphost[samples]'"


def sample_toml(changes: dict[str, str | int]) -> str:
    """
    Return the sample's ``host.toml``, with unusable parts as comments.

    :param changes: values of keys of ``[host]`` and ``[listen]``.
    """
    text = (folder("sample") / "host.toml").read_text(encoding="utf-8")
    for key, value in changes.items():
        (line,) = re.findall(rf"^{key} = .*$", text, re.MULTILINE)
        text = text.replace(line, f"{key} = {value if isinstance(value, int) else string_text(value)}")
    for part in missing_parts():
        for lines in re.findall(part.lines, text, re.MULTILINE):
            text = text.replace(lines, f"# {extras.missing(part.package)}\n{_comment_out(lines)}")
    return text


def _comment_out(lines: str) -> str:
    return "".join(f"# {line}" for line in lines.splitlines(keepends=True))


def copy_sample(directory: Path) -> list[Path]:
    """
    Copy the files of the sample except its ``host.toml``; overwrite nothing.

    :return: the written files.
    :raises OSError: a file cannot be written.
    """
    unused = {name for part in missing_parts() for name in part.files}
    source, written = folder("sample"), []
    for name in SAMPLE:
        found = [source / name] if (source / name).is_file() else sorted((source / name).rglob("*"))
        for path in found:
            place = path.relative_to(source)
            target = directory / place
            if not path.is_file() or "__pycache__" in place.parts or str(place) in unused or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            written.append(target)
    return written
