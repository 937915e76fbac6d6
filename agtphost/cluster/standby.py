"""
Wait for the lease of a store, and take it as soon as it is over or given up.

The lease is looked at by a thread, every half second, and when the store tells that it was given up. What
another host must not find out after it took over is checked while this one waits: whether it can use the store, and
whether it signs with the same key. The check is repeated right before the lease is taken, because the key may have been
changed at the host that serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import LeaseState, describe_clock
from agtphost.stores.moves import StoreMoved
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.times import steady

POLL_SECONDS = 0.5
"""From one look at the lease to the next."""

CHECK_SECONDS = 10.0
"""From one check whether this host could take over to the next."""

UNSEEN = "the lease was not read yet"

log = Logger()


class NameInUse(StoreError):
    """The error of a host whose ``[cluster] name`` is that of the host that serves: it has to end."""


class CannotTakeOver(StoreError):
    """
    The error of a standby that must not take over.

    :param summary: the reason without paths and addresses, for probes that anyone may send.
    """

    def __init__(self, message: str, summary: str) -> None:
        super().__init__(message)
        self.summary = summary


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """The state of the lease when it was last read, or the fault that kept it from being read."""

    state: LeaseState | None = None
    """None while the store cannot be reached."""

    fault: str = ""
    """Why this host would not take over; empty if it would."""

    summary: str = ""
    """The same without paths and addresses."""

    taken: bool = False
    """Whether this host has the lease now."""

    clock: str = ""
    """A line about this machine's clock, where it differs from the database's."""

    @property
    def serving(self) -> str | None:
        """The name of the host that serves; None where none does, or the store cannot be reached."""
        holder = None if self.state is None or self.state.is_over else self.state.holder
        return None if holder is None else holder.name or holder.place

    @property
    def term(self) -> int | None:
        """The term of the lease; None while the store cannot be reached."""
        return None if self.state is None else self.state.term

    def describe(self) -> str:
        """Return one line for people."""
        if self.state is None:
            return f"standby, which host serves is unknown: {self.fault}"
        text = f"{self.serving} serves" if self.serving else "no host serves"
        return f"standby, {text}" + (f"; this host does not take over: {self.fault}" if self.fault else "")


class Standby:
    """
    Waits for a lease.

    :param check: raises StoreError where this host may not take over; called in a thread.
    :param offload: calls a function in a thread.
    :param notify: takes each sighting that differs from the one before.
    """

    def __init__(
        self,
        reactor: Any,
        lease: ILease,
        check: Callable[[], object],
        offload: Callable[[Callable[[], Sighting]], Awaitable[Sighting]],
        notify: Callable[[Sighting], object],
    ) -> None:
        self._reactor = reactor
        self._lease = lease
        self._check = check
        self._offload = offload
        self._notify = notify
        self._fault = self._summary = ""
        self._checked_at = -CHECK_SECONDS
        self._outdated = ""
        self._newest = LeaseState(0, None, "", 0.0, 0.0)
        self._namesake: tuple[int, float] | None = None
        self._shown: tuple[object, ...] = ()
        self._pause: Deferred[None] | None = None
        self._stopping = self._woken = False
        self.last = Sighting(fault=UNSEEN, summary=UNSEEN)
        """The newest sighting."""

    async def wait(self) -> bool:
        """
        Wait until this host has the lease, or :meth:`stop` is called; return whether it has it.

        :raises NameInUse: another host with the same name serves.
        :raises agtphost.stores.moves.StoreMoved: the store was copied to another place.
        """
        self._lease.listen(lambda: self._reactor.callFromThread(self._wake))
        try:
            return await self._wait()
        finally:
            self._lease.stop_listening()

    async def _wait(self) -> bool:
        while not self._stopping:
            self._woken = False
            self.last = seen = await self._offload(self._look)
            if seen.taken:
                return True
            shown = (seen.serving, seen.term, seen.fault, bool(seen.clock))
            if shown != self._shown:
                self._shown = shown
                self._notify(seen)
            if not self._stopping and not self._woken:
                self._pause = Deferred()
                timer = self._reactor.callLater(POLL_SECONDS, self._pause.callback, None)
                await self._pause
                if timer.active():
                    timer.cancel()
        return False

    def stop(self) -> None:
        """End the wait soon, after a look that has begun."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        """Look again now, or after a look that has begun."""
        self._woken = True
        if self._pause is not None and not self._pause.called:
            self._pause.callback(None)

    # In a thread

    def _look(self) -> Sighting:
        try:
            seen = self._lease.look()
            mine = seen.holder is not None and seen.holder.is_same_host(self._lease.me)
            if not mine:
                self._require_own_name(seen)
            free = mine or seen.is_over
            if free or steady() - self._checked_at >= CHECK_SECONDS:
                self._find_fault()
            self._compare_with_newest(seen)
            fault = self._outdated or self._fault
            return Sighting(
                state=seen,
                fault=fault,
                summary="the store is older than it was" if self._outdated else self._summary,
                taken=free and not fault and self._lease.take(),
                clock=describe_clock(self._lease.clock_ahead),
            )
        except (NameInUse, StoreMoved):
            raise
        except StoreError as error:
            return Sighting(fault=str(error), summary="the store cannot be reached")

    def _find_fault(self) -> None:
        """Find out why this host may not take over, if there is a reason."""
        self._checked_at = steady()
        self._fault = self._summary = ""
        try:
            self._check()
        except CannotTakeOver as error:
            self._fault, self._summary = str(error), error.summary
        except StoreError as error:
            self._fault, self._summary = str(error), "the store cannot be read"

    def _compare_with_newest(self, seen: LeaseState) -> None:
        """Find out whether the store was newer before: then the database was restored to an earlier state."""
        newest = self._newest
        self._outdated = ""
        if seen.term >= newest.term and seen.last >= newest.last:
            self._newest = seen
            return
        self._outdated = (
            f"the store had term {newest.term} with {newest.last} records, and now it has term {seen.term} with "
            f"{seen.last}: the database was restored to an earlier state. Bring the newer one back; to go on with this "
            "one knowingly, stop the hosts and run `agtp audit accept-store`"
        )

    def _require_own_name(self, seen: LeaseState) -> None:
        """
        Refuse a name that a living host has: one that was killed on another machine does not write any more.

        :raises NameInUse: the holder has this host's name, and wrote since the first look.
        """
        holder = seen.holder
        if holder is None or seen.is_over or holder.name != self._lease.me.name:
            self._namesake = None
            return
        if self._namesake is None:
            self._namesake = seen.term, seen.beat
        elif self._namesake != (seen.term, seen.beat):
            raise NameInUse(
                f"[cluster] name is {holder.name!r}, and another host with that name, at {holder.place}, serves; give "
                "each host a different name, in [cluster] or by AGTPHOST_CLUSTER_NAME"
            )
