"""From a file to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agtphost.config.checks import check
from agtphost.config.cures import CureFinder, Trial
from agtphost.config.faults import ConfigFault, admit, drop_consequences, merge_empty, subject
from agtphost.config.key_lines import Places
from agtphost.config.sections import Config
from agtphost.config.values import LoadContext, can_be_path
from agtphost.errors import ConfigurationError, Problem
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.foreign_errors import original_of
from agtphost.vocabulary.regular_files import Stamp, stamps
from agtphost.vocabulary.tomlparser import copy_tree
from agtphost.vocabulary.tomltext import Document, Location, TomlError

MAX_OCTETS = 4_194_304
"""Of one file: larger ones were not written by an operator."""

STATE_VARIABLE = "AGTPHOST_STATE_DIR"
"""Overrides ``[host] state_dir``."""

DEFAULT_STATE = "state"


@dataclass(frozen=True, kw_only=True)
class HostFile:
    """A parsed TOML file with the lines of its keys."""

    file: Path
    """Absolute."""

    document: Document
    stamp: Stamp = None
    """The file as it was before it was read; None for a text that is in no file."""

    @property
    def tree(self) -> dict[str, Any]:
        """The tables of the file."""
        return self.document.tree

    def problems(
        self, faults: Collection[ConfigFault], model: type[BaseModel] = Config, trial: Trial | None = None
    ) -> list[Problem]:
        """
        ``faults`` with their keys, file and lines, in file order.

        :param model: the class of the file, for hints.
        :param trial: validates proposals, so that hints are of those that are sound.
        """
        cures = CureFinder(model, self.tree, self.file.parent, trial, faults)
        found = [
            Problem(
                message=f"{subject(fault.location, self.tree)} {fault.message}{self._other_line(fault)}",
                file=str(self.file),
                line=self.document.line(fault.location),
                hint=cures.complete(fault),
                original=fault.original,
            )
            for fault in merge_empty(faults, self.tree)
        ]
        return sorted(found, key=lambda problem: problem.line)

    def _other_line(self, fault: ConfigFault) -> str:
        line = 0 if fault.beside is None else self.document.line(fault.beside)
        return f" (line {line})" if line else ""


def read(path: str | os.PathLike[str]) -> HostFile:
    """
    Parse one TOML file.

    :raises ConfigurationError: the file cannot be read, or is not TOML.
    """
    file = Path(path).expanduser().absolute()
    try:
        stamp = stamps([file])[file]
        return HostFile(file=file, document=tomltext.read(file, MAX_OCTETS), stamp=stamp)
    except TomlError as error:
        hint = "`agtp init DIR` writes a ready one" if isinstance(error.__cause__, OSError) else error.hint
        problem = Problem(
            message=f"the file {error}", file=str(file), line=error.line, hint=hint, original=original_of(error)
        )
        raise ConfigurationError([problem]) from None


def line_of(file: Path, location: Location) -> int:
    """Return the line of a key, for faults that are found later; 0 for a configuration that is not from a file."""
    try:
        return tomltext.read(file, MAX_OCTETS).line(location)
    except TomlError:
        return 0


def problems_in(file: Path, faults: Iterable[ConfigFault]) -> list[Problem]:
    """
    Return the faults of a configuration in use as problems, as reading its file would report them.

    The file is read again only for faults. Some configurations have none, such as that of a host in memory: their
    problems have no lines.

    :raises ConfigurationError: the file cannot be read any more.
    """
    found = list(faults)
    if not found:
        return []
    if not file.exists():
        return [Problem(message=f"{subject(each.location, {})} {each.message}", hint=each.hint) for each in found]
    return read(file).problems(found)


def context_of(document: HostFile, environ: Mapping[str, str]) -> LoadContext:
    """Return the context in which the document's values are validated."""
    folder = document.file.parent
    host = document.tree.get("host")
    named = host.get("state_dir") if isinstance(host, dict) else None
    usable = isinstance(named, str) and named and can_be_path(folder, named)
    written = folder / Path(str(named)).expanduser() if usable else folder / DEFAULT_STATE
    files: dict[Path, Stamp] = {} if document.stamp is None else {document.file: document.stamp}
    if environ.get(STATE_VARIABLE):
        state = Path(environ[STATE_VARIABLE]).expanduser().absolute()
        return LoadContext(folder=folder, state_dir=state, environ=environ, written_state_dir=written, files=files)
    return LoadContext(folder=folder, state_dir=written, environ=environ, files=files)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A configuration, and what is wrong with it."""

    config: Config
    """Without the keys that are faulty: their defaults stand in for them."""

    problems: tuple[Problem, ...]
    """In file order."""

    sections: frozenset[str]
    """Top-level tables with faults: conclusions from their defaults do not count."""

    locations: frozenset[Location]
    """Keys and tables with faults."""


def examine(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Reading:
    """
    Read ``host.toml`` as far as it goes.

    :param path: of the file; relative paths inside it are relative to its directory.
    :param environ: for ``AGTPHOST_STATE_DIR`` and the variables that secrets name.
    :raises ConfigurationError: the file cannot be read, or is not TOML.
    """
    return examine_document(read(path), environ)


def examine_document(document: HostFile, environ: Mapping[str, str], apart_from: Collection[Location] = ()) -> Reading:
    """
    Return the configuration of a parsed file, and everything that is wrong with it.

    :param apart_from: keys whose faults do not count.
    """

    def validate(document: HostFile) -> tuple[Config, list[ConfigFault], list[Location]]:
        context = context_of(document, environ)
        config, faults, removed = admit(Config, copy_tree(document.tree), context)
        config = config.read_from(document.file, Places(document.document.lines, context.files))
        concerning = (fault for fault in check(config, context) if fault.location not in apart_from)
        return config, [*faults, *drop_consequences(concerning, removed)], removed

    def try_tree(tree: dict[str, Any]) -> list[ConfigFault]:
        return validate(HostFile(file=document.file, document=Document(tree, "")))[1]

    config, faults, removed = validate(document)
    # What a misspelt key was meant to be is among the removed ones.
    locations = frozenset(each for each in (*removed, *(fault.location for fault in faults)) if each)
    return Reading(
        config=config,
        problems=tuple(document.problems(faults, trial=try_tree)),
        sections=frozenset(str(each[0]) for each in locations),
        locations=locations,
    )


def load(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Config:
    """
    Read ``host.toml`` and return it.

    :raises ConfigurationError: with every problem found, in file order; see also :func:`examine`.
    """
    return _sound(examine(path, environ))


def load_text(text: str, file: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """
    Return the configuration that a text would be as the content of a file.

    :param text: TOML.
    :param file: absolute; relative paths in the text are relative to its directory.
    :raises ConfigurationError: with every problem found, and its line in the text.
    """
    try:
        document = tomltext.read(text)
    except TomlError as error:
        problem = Problem(message=f"the file {error}", file=str(file), line=error.line, hint=error.hint)
        raise ConfigurationError([problem]) from None
    return _sound(examine_document(HostFile(file=file, document=document), environ))


def read_tree(
    tree: Mapping[str, Any], file: Path, environ: Mapping[str, str], apart_from: Collection[Location] = ()
) -> Config:
    """
    Read a configuration that is in no file.

    :param tree: the tables of ``host.toml``.
    :param file: where it would lie, absolute; relative paths are relative to its directory.
    :param apart_from: keys that nothing is to be concluded of, as the files that they name are never read.
    :raises ConfigurationError: with every problem found.
    """
    return _sound(
        examine_document(HostFile(file=file, document=Document(copy.deepcopy(dict(tree)), "")), environ, apart_from)
    )


def _sound(reading: Reading) -> Config:
    if reading.problems:
        raise ConfigurationError(reading.problems)
    return reading.config
