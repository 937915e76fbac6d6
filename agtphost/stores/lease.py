"""
Who may write to a store that several machines share: one host at a time, by a lease with a term.

The lease is a row of the store. Its term, a fencing token, grows whenever a host takes the lease, and each transaction
checks it, so a host that lost the lease cannot commit. The lease lasts as long as its holder says from the holder's
last write on, by the clock of the database.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from agtphost.stores.moves import StoreMove, StoreMoved
from agtphost.stores.rows import StoreError
from agtphost.vocabulary import jsontext

SHORTEST_LEASE: Final = 3
LONGEST_LEASE: Final = 60
"""Bounds of :attr:`Holder.takeover_after`, in seconds."""

USUAL_LEASE: Final = 10

UNKNOWN_LEASE: Final = 30
"""The lease of a holder that does not say how long it is: agtphost 0.2.0 wrote every ten seconds at least."""


CLOCK_TOLERANCE: Final = 5.0
"""Seconds by which a host's clock may differ from that of its store before this is reported."""


def compare_clocks(before: float, theirs: float, after: float) -> float:
    """
    Return by how many seconds this machine's clock is at least ahead of another one; negative where it is behind.

    :param before: this machine's time before the other one was read.
    :param theirs: what was read.
    :param after: this machine's time afterwards.
    """
    return before - theirs if theirs < before else min(after - theirs, 0.0)


def describe_clock(ahead: float) -> str:
    """Return a line about a clock that differs from the store's by more than is tolerated; empty otherwise."""
    if abs(ahead) <= CLOCK_TOLERANCE:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    return (
        f"the clock of this machine is {abs(ahead):.0f} s {way} that of the database: set it right. Leases are not "
        "concerned, and signed times never go back"
    )


class Superseded(StoreError):
    """The error of a host whose store another host has taken over: it has to end."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A host that may have the lease."""

    name: str
    """``[cluster] name``; empty for a host of agtphost 0.2.0."""

    machine: str
    directory: str
    """The state directory, which only one process at a time uses."""

    takeover_after: float = USUAL_LEASE
    """Seconds after its last write from which on another host may take over."""

    since: str = ""
    """When it took the lease, by the database's clock."""

    move: StoreMove | None = None
    """
    Where the store was copied to: then the holder is the command that did so, and its lease never ends.

    Hosts of earlier versions take it for a host that serves, so they do not serve the store either.
    """

    @property
    def place(self) -> str:
        """Machine and state directory."""
        return f"{self.machine}:{self.directory}"

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.name else self.place

    def is_same_host(self, other: Holder) -> bool:
        """Return whether both are one host: the lock of its directory shows that an earlier process is gone."""
        here, there = (self.name, self.machine, self.directory), (other.name, other.machine, other.directory)
        return here == there and self.move is None and other.move is None

    def to_text(self, since: str) -> str:
        """Return the text of column ``holder``."""
        fields = {name: getattr(self, name) for name in ("name", "machine", "directory", "takeover_after")}
        if self.move is not None:
            fields |= {"moved_to": self.move.target, "moved_at": self.move.at, "complete": self.move.complete}
        return json.dumps({**fields, "since": since}, ensure_ascii=False)


def holder_here(name: str, directory: Path, takeover_after: float) -> Holder:
    """Return the host of this machine with a name and a state directory."""
    return Holder(name=name, machine=socket.gethostname(), directory=str(directory), takeover_after=takeover_after)


def read_holder(text: str) -> Holder | None:
    """Read column ``holder``; None if no host has the lease. A lease of invalid length counts as the longest one."""
    if not text:
        return None
    try:
        fields = jsontext.decode(text.encode())
    except ValueError:
        fields = None
    if not isinstance(fields, Mapping):
        machine, _, directory = text.partition(":")
        return Holder(name="", machine=machine, directory=directory, takeover_after=UNKNOWN_LEASE)
    words = {name: str(fields.get(name, "")) for name in ("name", "machine", "directory", "since")}
    return Holder(**words, takeover_after=_read_lease(fields.get("takeover_after")), move=_read_move(fields))


def _read_move(fields: Mapping[str, Any]) -> StoreMove | None:
    if "moved_to" not in fields:
        return None
    target, at = str(fields["moved_to"]), str(fields.get("moved_at", ""))
    return StoreMove(target=target, at=at, complete=fields.get("complete") is not False)


def require_unmoved(name: str, holder: Holder | None, resumed: StoreMove | None = None) -> None:
    """
    Refuse a store that was copied to another place.

    :param name: the store in messages.
    :param holder: who has its lease.
    :param resumed: the mark of a copy that is made again.
    :raises StoreMoved: it has another mark.
    """
    if holder is not None and holder.move is not None and holder.move != resumed:
        raise StoreMoved(holder.move.explain(name))


def _read_lease(value: Any) -> float:
    known = isinstance(value, (int, float)) and SHORTEST_LEASE <= value <= LONGEST_LEASE
    return float(value) if known else LONGEST_LEASE


SERVING: Final = "serving"
STANDBY: Final = "standby"
"""States of processes."""

REPORT_SECONDS: Final = 2.0
"""From one report of a process to the next."""

SILENT_SECONDS: Final = 10.0
"""Seconds after its last report from which on a process counts as gone."""


UNTAKEN: Final = "not taken"
"""In place of a digest of files: they have changed, and the host that serves did not take them when it took over."""


@dataclass(frozen=True, kw_only=True)
class HostProcess:
    """A process of a host, as it reports itself to its store."""

    id: str
    """Random."""

    name: str
    """``[cluster] name``."""

    place: str
    """Machine and state directory."""

    version: str
    """The version of agtphost."""

    state: str
    """:data:`SERVING` or :data:`STANDBY`."""

    settings: Mapping[str, str]
    """A digest of each kind of file that the hosts of a store have alike, by kind."""


@dataclass(frozen=True, kw_only=True)
class ProcessSighting:
    """A process of a host, as its store shows it."""

    name: str
    place: str
    version: str
    schema: int
    """The version of the store's tables that its program uses."""

    state: str
    settings: Mapping[str, str]
    started: str
    age: float
    """Seconds since its last report, by the database's clock."""

    @property
    def is_alive(self) -> bool:
        """Whether it reported recently; a report of a later time is from before the clock of the database went back."""
        return abs(self.age) <= SILENT_SECONDS

    def differences(self, other: ProcessSighting) -> list[str]:
        """Return the kinds of files that two processes do not have alike."""
        kinds = sorted({*self.settings, *other.settings})
        return [kind for kind in kinds if self.settings.get(kind) != other.settings.get(kind)]


def read_settings(text: str) -> Mapping[str, str]:
    """Read column ``settings``; empty where it has anything else than texts by name."""
    try:
        found = jsontext.decode(text.encode())
    except ValueError:
        return {}
    return {str(kind): str(digest) for kind, digest in found.items()} if isinstance(found, Mapping) else {}


class LeaseState(NamedTuple):
    """The lease of a store, as its row holds it."""

    term: int
    holder: Holder | None
    """None where the last holder gave it up."""

    text: str
    """Column ``holder``."""

    age: float
    """Seconds since the holder's last write; negative where it kept the lease beforehand."""

    beat: float
    """When that was, in seconds of the database's clock."""

    last: int = 0
    """Number of the newest record."""

    @property
    def is_over(self) -> bool:
        """Whether the lease has ended or was given up."""
        return self.holder is None or self.age > self.holder.takeover_after
