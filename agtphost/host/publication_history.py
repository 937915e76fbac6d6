"""
Number what was published and keep the numbers over restarts: state items, and ``manifest.json`` of the state directory.

``document_version`` changes with anything in a manifest (AGTP-API section 8.11), ``AGTP-API-Version`` with what can be
called (core v08 section 7.6). No number is ever used for two contents, also
where several hosts publish by one store, one after the other.

Numbers are given out without waiting for the store. The item of a new one is submitted before any answer has the
number, and the ledger writes in order: the record of such an answer is in the same transaction or in a later one. Only
answers without a durable record can leave before it. After a failure of the store the item is submitted again within
:data:`LOOK_EVERY`; until then the file alone has the number.

The file is a copy for people, and what a host has that published before there were items. At a start the higher
numbers count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.state import StateTable
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.periodic import PeriodicService
from agtphost.iagtp import ILedger
from agtphost.identity import files

log = Logger()

PUBLISHED = "published"
"""The kind of state items."""

DOCUMENTS, SURFACE = "documents", "surface"

PARTS = {DOCUMENTS: ("issued", "revision", "contents"), SURFACE: ("surface", "upstreams")}
"""The members of a history that each item has, by its key."""

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

    Until :meth:`join` has read the items, numbers are provisional: a host does not serve before that.

    :param path: of the file; created with the first content. None: the numbers are lost with the process.
    :param now: returns the present time, RFC 3339.
    :raises agtphost.errors.ConfigurationError: the file was not written by this class. Starting again at 1 would use
        numbers a second time.
    """

    def __init__(self, path: Path | None, now: Callable[[], str]) -> None:
        self._path = path
        self._now = now
        self._ledger: ILedger | None = None
        self._submitted: dict[str, Mapping[str, Any]] = {}
        try:
            self._seen: dict[str, Any] = {"issued": now(), "revision": 0, "contents": {}}
            if path is not None:
                self._seen = _read(path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                [
                    Problem(
                        message=f"the manifest's history cannot be read: {error}",
                        file=str(path),
                        hint="restore it from a backup; without it AGTP-API-Version would start again at 1",
                    )
                ]
            ) from None
        self._read = self._seen

    def join(self, held: StateTable, ledger: ILedger) -> None:
        """
        Go on with the higher numbers of those in the store and in the file, and keep the store in step from now on.

        What was numbered before counts for nothing: ask again for the numbers of what is published.

        :param held: the state items, as the ledger has read them.
        """
        stored = {key: item.value for key in PARTS if (item := held.get(PUBLISHED, key)) is not None}
        self._seen = _newer(self._read, stored)
        self._ledger, self._submitted = ledger, {key: dict(value) for key, value in stored.items()}
        self.save_items()

    def save_items(self) -> None:
        """Submit what the store does not have yet; do nothing where it has all."""
        ledger = self._ledger
        if ledger is None:
            return
        parts = {key: {name: self._seen[name] for name in names if name in self._seen} for key, names in PARTS.items()}
        changed = {key: value for key, value in parts.items() if value and value != self._submitted.get(key)}
        if not changed:
            return
        self._submitted.update(changed)
        changes = tuple(Change(kind=PUBLISHED, key=key, value=value) for key, value in changed.items())
        saving: Any = ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=changes, performed=True))
        saving.addErrback(self._note_unsaved, changed)

    def _note_unsaved(self, failure: Failure, changed: Mapping[str, Mapping[str, Any]]) -> None:
        for key, value in changed.items():
            if self._submitted.get(key) is value:
                del self._submitted[key]
        log.error("the numbers of what is published are not in the store yet: {why}", why=failure.getErrorMessage())

    def number_document(self, form: str, digest: str) -> Revision:
        """
        Return the revision of a content; a new one gets the next ``document_version``.

        :param form: which of the manifest's forms.
        :raises OSError: it cannot be made durable; nothing changed.
        """
        known = self._seen["contents"].get(form)
        if known is None or known["digest"] != digest:
            number = self._seen["revision"] + 1
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
            known = {"number": known["number"] + 1, "digest": digest}
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
            files.replace(self._path, json.dumps(seen, indent=1).encode(), files.PRIVATE)
        self._seen = seen
        self.save_items()


def _newer(file: Mapping[str, Any], stored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a history that has, of each part, the higher number; of equal ones what the store has."""
    seen = dict(file)
    documents, surface = stored.get(DOCUMENTS), stored.get(SURFACE)
    if documents is not None and documents["revision"] >= file["revision"]:
        seen.update(documents)
    if surface is not None and surface["surface"]["number"] >= file.get("surface", {"number": 0})["number"]:
        seen.update(surface)
    return seen


def _read(octets: bytes) -> dict[str, Any]:
    """Return the history in a file. :raises ValueError: the file holds none."""
    seen = json.loads(octets)
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
    )
    if not sound:
        raise ValueError("the file is not a history of the manifest")
    return dict(seen)


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
