"""
Read from a faulty ``host.toml`` what a command needs that talks to a running host.

The host keeps the configuration that it started with. A fault in the file must not keep an operator from reaching it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agtphost.config.loader import MAX_OCTETS, STATE_VARIABLE, HostFile, examine_document, read
from agtphost.config.sections import Config
from agtphost.errors import ConfigurationError, Problem
from agtphost.vocabulary import database_url
from agtphost.vocabulary.regular_files import read_octets
from agtphost.vocabulary.toml_salvage import salvage
from agtphost.vocabulary.tomltext import Document, Location


@dataclass(frozen=True, kw_only=True)
class LenientReading:
    """The sound part of a ``host.toml``."""

    config: Config
    """Faulty keys have their defaults."""

    problems: tuple[Problem, ...]
    """In the order of the file; a syntax error comes first."""

    faulty: frozenset[Location]
    """Keys and tables whose values in :attr:`config` are defaults, because the file is faulty there."""

    def is_known(self, location: Location) -> bool:
        """
        Return whether the value of a key is what the file says, or the default of a key that it leaves out.

        A table is known if all that it has is known: one of its keys may be the one that a command would obey.
        """
        return not any(location[: len(place)] == place or place[: len(location)] == location for place in self.faulty)

    def require(self, *locations: Location) -> None:
        """
        Require that keys are known.

        :raises ConfigurationError: with every problem of the file, if one is not.
        """
        if not all(map(self.is_known, locations)):
            raise ConfigurationError(self.problems)


def read_leniently(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> LenientReading:
    """
    Read ``host.toml`` as far as it is sound.

    :param environ: for ``AGTPHOST_STATE_DIR`` and the variables that secrets name.
    :return: of a file that cannot be read at all, the defaults, none of which is known.
    :raises ConfigurationError: the file does not exist.
    """
    try:
        document, problems = read(path), []
        lost = contradicted = frozenset[Location]()
    except ConfigurationError as error:
        if not os.path.lexists(Path(path).expanduser()):
            raise
        problems = list(error.problems)
        document, lost, contradicted = _salvage(Path(path).expanduser().absolute())
    found = examine_document(document, environ)
    faulty = {*found.locations, *contradicted, *(each for each in lost if each and not _is_set(document.tree, each))}
    if not _is_set(document.tree, STORE_URL) and any(_names_store(document.tree, each) for each in faulty):
        faulty.add(STORE_URL)
    if not environ.get(STATE_VARIABLE) and not _is_set(document.tree, STATE_DIR):
        folder = Path(path).expanduser().parent
        if any(_names_folder(document.tree, each, folder) for each in faulty):
            faulty.add(STATE_DIR)
    for needed in _NEEDED:
        if not _is_set(document.tree, needed) and any(_may_be(each, needed) for each in lost):
            faulty.add(needed)
    return LenientReading(
        config=found.config, problems=(*problems, *(() if problems else found.problems)), faulty=frozenset(faulty)
    )


STORE_URL: Location = ("store", "url")
STATE_DIR: Location = ("host", "state_dir")

_NEEDED: frozenset[Location] = frozenset(
    {
        ("listen", "address"),
        ("listen", "port"),
        ("listen", "endpoint"),
        STATE_DIR,
        ("tls", "client_ca"),
        ("identity", "known_agents"),
        ("audit", "key"),
        ("store",),
    }
)
"""Keys that commands need. Lines of an unknown key may have been any of those that the rest of the file lacks."""


def _may_be(lost: Location, needed: Location) -> bool:
    """Return whether lines that were given up may have had a key: their own name is none that this host knows."""
    if not lost or str(lost[0]) not in Config.model_fields:
        return True
    if lost[0] != needed[0]:
        return False
    table = Config.model_fields[str(lost[0])].annotation
    fields = getattr(table, "model_fields", {})
    return len(lost) == 1 or str(lost[1]) not in fields or lost[: len(needed)] == needed


def _salvage(file: Path) -> tuple[HostFile, frozenset[Location], frozenset[Location]]:
    """
    Return the sound part of a file that is not TOML, the keys that were given up, and those that it has twice.
    """
    try:
        octets = read_octets(file, MAX_OCTETS + 1)
    except OSError:
        octets = b""
    if not octets or len(octets) > MAX_OCTETS:
        return HostFile(file=file, document=Document({}, "")), frozenset({()}), frozenset()
    found = salvage(octets.decode("utf-8", "replace").removeprefix("\ufeff"))
    return HostFile(file=file, document=found.document), found.lost, found.contradicted


def _is_set(tree: object, location: Location) -> bool:
    return _find(tree, location) is not None


def _find(tree: object, location: Location) -> object:
    """Return the value at a location; None where there is none, as TOML has no such value."""
    for step in location:
        inside = isinstance(tree, Mapping) and step in tree
        if not inside and not (isinstance(tree, list) and isinstance(step, int) and step < len(tree)):
            return None
        tree = tree[step]  # type: ignore[index]
    return tree


def _names_store(tree: Mapping[str, object], faulty: Location) -> bool:
    """Return whether a faulty key, or one of a table of unknown name, has the URL of a store: ``url`` was meant."""
    value = _find(tree, faulty)
    if isinstance(value, Mapping) and len(faulty) == 1 and faulty[0] not in Config.model_fields:
        return any(map(_is_store_url, value.values()))
    return _is_store_url(value)


def _is_store_url(value: object) -> bool:
    if not isinstance(value, str):
        return False
    return value.startswith("sqlite:") or ("://" in value and database_url.is_postgresql(value))


def _names_folder(tree: Mapping[str, object], faulty: Location, folder: Path) -> bool:
    """
    Return whether an unknown key of ``[host]``, or of a table of unknown name, has a path: ``state_dir`` was meant.

    :param folder: where the file is.
    """
    value = _find(tree, faulty)
    if isinstance(value, Mapping) and len(faulty) == 1 and faulty[0] not in Config.model_fields:
        return any("dir" in str(key) and _is_path(each, folder) for key, each in value.items())
    known = getattr(Config.model_fields["host"].annotation, "model_fields", {})
    return len(faulty) == 2 and faulty[0] == "host" and faulty[1] not in known and _is_path(value, folder)


def _is_path(value: object, folder: Path) -> bool:
    if not isinstance(value, str) or "://" in value or not value.isprintable():
        return False
    return "/" in value or (value != "" and os.path.isdir(folder / value))
