"""
Which carrier a connection is made by, where the caller leaves that to the client (``quic="auto"``); no I/O but a file.

QUIC is tried first where the host's signed manifest offers it, and TCP besides once QUIC has not answered for
:data:`HEAD_START`. A host that had to be called over TLS is not tried by QUIC again for :data:`SILENT_SECONDS`.
What is remembered is a hint and no authority: both carriers verify the server in the same way.
"""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from agtphost.client.cache_files import cache_folder, read_cached, write_cached
from agtphost.client.errors import CannotConnect, ConnectionLost, HandshakeEnded, VerificationFailed
from agtphost.client.manifests import read_manifest
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.verification import signing_keys_of
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.manifest_signature import verify_manifest
from agtphost.vocabulary.lru import keep

AUTO = "auto"
"""The value of the option ``quic`` that leaves the choice to the client."""

HEAD_START = 0.3
"""Seconds that QUIC gets before TCP is tried besides."""

OVERTAKEN = "The host did not answer by QUIC in time."
"""The cause of a fallback where TCP was connected first."""

OFFERED_SECONDS = 86_400.0
"""For how long an offer is believed, unless it fails: then until QUIC may be tried again."""

ABSENT_SECONDS = 3_600.0
"""For how long a host that offers no QUIC is not asked again, and a refused caller does not ask."""

REFUSED = frozenset({262, 401, 403})
"""Statuses of a reading that say something of its caller and nothing of the host."""

SILENT_SECONDS = 300.0
"""For how long QUIC is not tried after a host had to be called over TLS."""

MOST = 1024
"""Hosts that a client remembers; beyond that the oldest is forgotten."""


@dataclass(frozen=True, kw_only=True)
class Fallback:
    """A host that offers QUIC and was called over TLS."""

    destination: Destination
    cause: str
    """A sentence: how QUIC failed."""

    def __str__(self) -> str:
        return (
            f"{self.cause} {self.destination} is called over TLS; QUIC is tried again after "
            f"{SILENT_SECONDS / 60:g} minutes."
        )


class CarrierMemory(Protocol):
    """A store of carriers that outlives one client."""

    def read(self, destination: Destination) -> tuple[int | None, float, float] | None:
        """
        Return what is known of a host; None: nothing.

        :return: the port of QUIC, None for no offer; the seconds for which that holds; the seconds for which QUIC is
            not to be tried.
        """

    def write(self, destination: Destination, port: int | None, seconds: float, silent: float) -> None:
        """Remember this of a host."""


class CarrierFiles:
    """
    A directory that remembers carriers between commands, in the user's cache.

    :param environ: says where that is.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = cache_folder("carriers", environ)

    def read(self, destination: Destination) -> tuple[int | None, float, float] | None:
        """Return what an earlier command has written, with the seconds that are left; see :class:`CarrierMemory`."""
        if self._folder is None:
            return None
        found = read_cached(self._folder / _file_name(destination))
        now = time.time()
        try:
            port, until, silent_until = found["quic"], float(found["until"]), float(found["silent_until"])
        except (TypeError, KeyError, ValueError):
            return None
        if not (port is None or _is_port(port)) or until <= now:
            return None
        return port, min(until - now, OFFERED_SECONDS), min(silent_until - now, SILENT_SECONDS)

    def write(self, destination: Destination, port: int | None, seconds: float, silent: float) -> None:
        """Write this for the next command; does nothing without a cache directory."""
        if self._folder is not None:
            now = time.time()
            text = json.dumps({"quic": port, "until": now + seconds, "silent_until": now + silent})
            write_cached(self._folder / _file_name(destination), text)


def _file_name(destination: Destination) -> str:
    return f"{sha256(str(destination).encode()).hexdigest()}.json"


@dataclass(frozen=True, slots=True)
class _Known:
    port: int | None
    until: float
    silent_until: float


class CarrierTable:
    """
    The carriers of hosts, as one client knows them.

    :param memory: what other clients knew; None: nothing.
    :param report: takes each host that had to be called over TLS, at most once in :data:`SILENT_SECONDS`.
    """

    def __init__(self, memory: CarrierMemory | None, report: Callable[[Fallback], object] | None) -> None:
        self._memory = memory
        self._report = report
        self._hosts: OrderedDict[Destination, _Known] = OrderedDict()
        self._suspects: dict[Destination, str] = {}
        self._refused: OrderedDict[tuple[Destination, str | None], float] = OrderedDict()

    def is_known(self, destination: Destination, now: float) -> bool:
        """Return whether it is known what a host offers."""
        return self._find(destination, now) is not None

    def is_refused(self, destination: Destination, caller: str | None, now: float) -> bool:
        """
        Return whether a host has lately refused its manifest to a caller; another caller may get it.

        :param caller: an Agent-ID; None for anonymous calls.
        """
        return now < self._refused.get((destination, caller), now)

    def quic_of(self, destination: Destination, now: float) -> Destination | None:
        """Return where a host is to be tried by QUIC; None: it is called over TLS alone."""
        known = self._find(destination, now)
        if known is None or known.port is None or now < known.silent_until or destination in self._suspects:
            return None
        return Destination(destination.host, known.port)

    def note_manifest(
        self, destination: Destination, reply: Reply, keys: Mapping[str, VerifyingKey], now: float
    ) -> None:
        """
        Remember what a host's manifest offers; nothing of another document, or if the signature is wrong.

        A refusal is remembered of its caller alone, and in no other memory than this table.

        :param reply: the manifest, or its first part.
        :param keys: that may have signed it; empty: those that it publishes, which came over a verified connection.
        """
        if reply.status in REFUSED:
            keep(self._refused, (destination, reply.caller_id), now + ABSENT_SECONDS, MOST)
            return
        try:
            document = read_manifest(reply)
            verify_manifest(document, keys or signing_keys_of(document))
            port = offered_port(document, destination.port)
        except (VerificationFailed, JWSError):
            port = None
        self._keep(destination, port, now)

    def note_absence(self, destination: Destination, now: float) -> None:
        """Remember that a host does not say what it offers."""
        self._keep(destination, None, now)

    def forget(self, destination: Destination) -> None:
        """
        Have the manifest of a host read again, over TLS: what it offered by QUIC refused the client or was refused.

        Another host may have the port by now. The call fails all the same: no carrier hides a refusal of the other.
        """
        known = self._hosts.pop(destination, None)
        if known is not None and self._memory is not None:
            self._memory.write(destination, known.port, 0.0, 0.0)

    def suspect(self, destination: Destination, cause: str) -> None:
        """Let the next connection be made by TLS: one by QUIC ended within a call."""
        self._suspects[destination] = cause

    def end_attempt(self, destination: Destination, now: float, *, connected: bool, cause: str = "") -> None:
        """
        Note the end of an attempt by TLS.

        :param connected: whether it succeeded; if not the host is down, and that says nothing of QUIC.
        :param cause: how QUIC failed before; empty: it was not tried.
        """
        cause = self._suspects.pop(destination, "") or cause
        known = self._hosts.get(destination)
        if not (connected and cause and known is not None):
            return
        # Its manifest is read again before QUIC is tried again: the port may have changed.
        again = now + SILENT_SECONDS
        self._put(destination, _Known(known.port, min(known.until, again), again), now)
        if self._report is not None:
            self._report(Fallback(destination=destination, cause=cause))

    def _find(self, destination: Destination, now: float) -> _Known | None:
        known = self._hosts.get(destination)
        if known is not None and now < known.until:
            return known
        found = None if self._memory is None else self._memory.read(destination)
        if found is None:
            return None
        port, seconds, silent = found
        return keep(self._hosts, destination, _Known(port, now + seconds, now + silent), MOST)

    def _keep(self, destination: Destination, port: int | None, now: float) -> None:
        known = self._hosts.get(destination)
        seconds = ABSENT_SECONDS if port is None else OFFERED_SECONDS
        silent_until = known.silent_until if known is not None else now
        self._put(destination, _Known(port, now + seconds, silent_until), now)

    def _put(self, destination: Destination, known: _Known, now: float) -> None:
        keep(self._hosts, destination, known, MOST)
        if self._memory is not None:
            self._memory.write(destination, known.port, known.until - now, max(known.silent_until - now, 0.0))


def offered_port(document: Mapping[str, Any], dialled: int) -> int | None:
    """
    Return the port at which a manifest offers QUIC; None: it offers none.

    :param dialled: the port of TLS that the client knows the host by. Where the manifest has one number for both, it
        means QUIC's as well: the host's own number may be another behind a translator of addresses.
    """
    listed = document.get("transports")
    if not isinstance(listed, list):
        return None
    own, found = None, None
    for entry in listed:
        if not isinstance(entry, dict) or not _is_port(entry.get("port")):
            continue
        if entry.get("carrier") == "tls" and own is None:
            own = entry["port"]
        elif entry.get("carrier") == "quic" and entry.get("alpn", "agtp") == "agtp" and found is None:
            found = entry["port"]
    return dialled if found is not None and found == own else found


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 65536


def needs_offers(call: PreparedCall) -> bool:
    """Return whether a call waits until it is known what its host offers: all but the reading of that."""
    request = call.request
    return not (request.method == "DISCOVER" and request.path == "/")


def may_fall_back(error: BaseException) -> bool:
    """
    Return whether TLS may be used in place of a connection by QUIC that failed so.

    One side's refusal of the other is not hidden by the other carrier.
    """
    return isinstance(error, (CannotConnect, ConnectionLost, HandshakeEnded))
