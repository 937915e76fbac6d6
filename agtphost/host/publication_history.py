"""
Number what was published and keep the numbers over restarts: ``manifest.json`` of the state directory.

Hosts that share a store keep the numbers there, too (:mod:`.shared_numbers`): the file of one is unknown to the others.

``document_version`` changes with anything in a manifest (AGTP-API section 8.11), ``AGTP-API-Version`` with what can be
called (core v08 section 7.6). No number is ever used for two contents: it is on disk before it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agtphost.cluster.shared_numbers import Numbers, SharedNumbers, read_row, write_row
from agtphost.errors import ConfigurationError, Problem
from agtphost.identity import files
from agtphost.protocols.periodic import PeriodicService
from agtphost.vocabulary.foreign_errors import explain

DOCUMENTS, SURFACES = "document", "surface"
"""The series of numbers."""

LOOK_EVERY = 1.0
"""Seconds between two comparisons of upstreams: servers list their tools no more often."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """The version and times of one content of a manifest."""

    issued: str
    """RFC 3339: when this host first published a manifest."""

    updated: str
    """RFC 3339: when this content was first published."""

    version: str
    """The ``document_version``."""


class PublicationHistory:
    """
    The numbers of published contents.

    :param path: of the file; created with the first content. None: the numbers are lost with the process.
    :param now: returns the present time, RFC 3339.
    :param shared: the numbers in a store that several hosts share; None where this host alone uses its store.
    :raises agtphost.errors.ConfigurationError: the file, or the row of the store, was not written by this class.
        Starting again at 1 would use numbers a second time.
    :raises agtphost.stores.StoreError: the shared store does not answer.
    """

    def __init__(self, path: Path | None, now: Callable[[], str], shared: SharedNumbers | None = None) -> None:
        self._path = path
        self._now = now
        self._shared = shared
        found = None if path is None else _read_file(path)
        self._seen: dict[str, Any] = found or {"issued": now(), "revision": 0, "contents": {}}
        if shared is not None:
            self._join(shared)

    def _join(self, shared: SharedNumbers) -> None:
        """
        Go on from what the host before this one published.

        The file counts, too: a version that had the numbers in the file alone may have used larger ones.
        """
        self._seen, used = _merge(self._seen, shared.read)
        shared.begin(self._seen, used)

    def _next(self, series: str) -> int:
        return _numbers_of(self._seen)[series] + 1 if self._shared is None else self._shared.allot(series)

    def number_document(self, form: str, digest: str) -> Revision:
        """
        Return the revision of a content; a new one gets the next ``document_version``.

        :param form: which of the manifest's forms.
        :raises OSError: it cannot be made durable; nothing changed.
        """
        known = self._seen["contents"].get(form)
        if known is None or known["digest"] != digest:
            number = self._next(DOCUMENTS)
            known = {"digest": digest, "updated": self._now(), "version": f"v{number}"}
            self._save({"revision": number, "contents": {**self._seen["contents"], form: known}})
        return Revision(issued=self._seen["issued"], updated=known["updated"], version=known["version"])

    def number_surface(self, digest: str, upstreams: Mapping[str, Any]) -> int:
        """
        Return the ``AGTP-API-Version`` of what can be called; a new digest gets the next number.

        :param upstreams: returned by :attr:`upstreams` after a restart.
        :raises OSError: it cannot be made durable; nothing changed.
        """
        known = self._seen.get("surface", {"number": 0, "digest": ""})
        if known["digest"] != digest:
            known = {"number": self._next(SURFACES), "digest": digest}
            self._save({"surface": known, "upstreams": dict(upstreams)})
        number: int = known["number"]
        return number

    @property
    def upstreams(self) -> Mapping[str, Any]:
        """Return the last known state of each upstream, by its path, so that a restart alone changes nothing."""
        known: Mapping[str, Any] = self._seen.get("upstreams", {})
        return known

    def _save(self, changes: Mapping[str, Any]) -> None:
        seen = {**self._seen, **changes}
        if self._path is not None:
            files.replace(self._path, _to_octets(seen), files.PRIVATE)
        self._seen = seen
        if self._shared is not None:
            self._shared.save(seen)


def merge_row(path: Path, row: str) -> str:
    """
    Return the row of a shared store that goes on from another row and from a file.

    :param row: empty for none.
    :return: empty where nothing was published.
    :raises agtphost.errors.ConfigurationError: the file or the row was not written by this program.
    """
    found = _read_file(path)
    if found is None and not row:
        return ""
    return write_row(*_merge(found, lambda: read_row(row)))


def write_file(path: Path, row: str) -> None:
    """
    Let a host that alone uses its store go on from the row of a shared one: above the numbers that may have been used.

    :param row: as :func:`merge_row` returns it.
    :raises OSError: the file cannot be written.
    """
    history, used = read_row(row)
    files.make_directory(path.parent)
    files.replace(path, _to_octets({**history, "used": dict(used)}), files.PRIVATE)


def _read_file(path: Path) -> dict[str, Any] | None:
    """
    Return the history in a file; None without the file.

    :raises agtphost.errors.ConfigurationError: the file has none.
    """
    try:
        return _check_history(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            [
                Problem(
                    message=f"the manifest's history cannot be read: {explain(error)}",
                    file=str(path),
                    hint="restore it from a backup; without it AGTP-API-Version would start again at 1",
                )
            ]
        ) from error


def _merge(seen: dict[str, Any] | None, read: Callable[[], tuple[Any, Numbers]]) -> tuple[dict[str, Any], Numbers]:
    """
    Return the history to go on from, which is the store's if it has one, and the largest numbers that were used.

    :param seen: the history of the state directory.
    :param read: reads the row of the store; at least one of the two has a history.
    :raises agtphost.errors.ConfigurationError: the row has none.
    """
    try:
        stored, limits = read()
        merged = seen if stored is None and seen is not None else _check_history(stored)
    except ValueError as error:
        raise ConfigurationError(
            [
                Problem(
                    message=f"the manifest's history in the store cannot be read: {explain(error)}",
                    hint="restore the table published from a backup; without it AGTP-API-Version would start at 1",
                )
            ]
        ) from error
    numbers, latest = _numbers_of(seen or merged), _numbers_of(merged)
    return merged, {series: max(numbers[series], latest[series], limits.get(series, 0)) for series in latest}


def _to_octets(seen: Mapping[str, Any]) -> bytes:
    return json.dumps(seen, indent=1).encode()


def _check_history(seen: Any) -> dict[str, Any]:
    """Return the history that was read, if it is one. :raises ValueError: it is none."""
    surface = seen.get("surface", {"number": 0, "digest": ""}) if isinstance(seen, dict) else None
    sound = (
        isinstance(seen, dict)
        and isinstance(seen.get("issued"), str)
        and isinstance(seen.get("revision"), int)
        and isinstance(seen.get("contents"), dict)
        and isinstance(seen.get("upstreams", {}), dict)
        and isinstance(surface, dict)
        and isinstance(surface.get("number"), int)
        and isinstance(surface.get("digest"), str)
        and isinstance(used := seen.get("used", {}), dict)
        and all(type(number) is int for number in used.values())
    )
    if not sound:
        raise ValueError("it is not a history of the manifest")
    return dict(seen)


def _numbers_of(seen: Mapping[str, Any]) -> dict[str, int]:
    """Return the largest number of each series that may have been used."""
    numbers = {DOCUMENTS: seen["revision"], SURFACES: seen.get("surface", {"number": 0})["number"]}
    used: Mapping[str, int] = seen.get("used", {})
    return {series: max(number, used.get(series, 0)) for series, number in numbers.items()}


class UpstreamComparison(PeriodicService):
    """
    A service that compares the upstreams with the manifest periodically.

    :param clock: schedules the comparisons.
    :param compare: see :meth:`.publication.Publication.refresh`.
    """

    name = "manifest"

    failure_message = "upstreams could not be compared with the manifest"

    def __init__(self, clock: Any, compare: Callable[[], None]) -> None:
        super().__init__(clock, LOOK_EVERY)
        self._compare = compare

    async def _check(self) -> None:
        self._compare()
