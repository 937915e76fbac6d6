"""
What an upstream still works on for a caller that was stopped, or that gave it up: it is told to stop.

SUSPEND of a Task-ID or Session-ID ends the tasks that run under it (adapters rule G6); suspending or revoking an agent
ends all of its tasks (core v08 section 7.2.16). The upstream is asked in the background, and what it answers is
kept and signed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.upstream.failures import UpstreamFailure
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.pins import Submit

CANCELLED = "upstream-task-cancelled"

PAUSES = (1.0, 5.0, 30.0, 120.0)
"""Seconds between attempts to reach an upstream; after the last one it is given up, and logged."""

MOST_AT_ONCE = 256
"""Tasks that are being ended; more are ended when these are."""

log = Logger(namespace="agtphost.upstreams")

Cancel = Callable[[OwnedTask], Awaitable[str]]
"""Asks the upstream to end a task; its state afterwards. Fails with :class:`UpstreamFailure`."""


class AlreadyOver(UpstreamFailure):
    """The upstream has no such task, or it has ended."""


class Cancellation(Service):
    """
    Ends tasks of one protocol's upstreams.

    :param over: whether a state is a last one.
    :param clock: between attempts.
    """

    def __init__(
        self,
        protocol: str,
        links: TaskOwnership,
        cancel: Cancel,
        over: Callable[[str], bool],
        submit: Submit,
        clock: Any,
    ) -> None:
        self.name = f"{protocol} endings"
        self._protocol = protocol
        self._links = links
        self._cancel = cancel
        self._over = over
        self._submit = submit
        self._clock = clock
        self._ending: dict[str, Deferred[None]] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._ending)

    def given_up(self, owner: str, of: str, name: str) -> None:
        """A caller suspended one of its tasks, or one of its sessions."""

        def named(link: OwnedTask) -> bool:
            return name == (link.task_id if of == "task" else link.session_id)

        self._clock.callLater(0, self._end, owner, named, f"SUSPEND of {of} {name}")

    def agent_stopped(self, owner: str, status: str) -> None:
        """
        An agent was suspended or revoked.

        :param owner: one of those whose tasks are the agent's, by how surely it was known.
        """
        self._clock.callLater(0, self._end, owner, lambda link: True, f"its agent is {status}")

    def stopService(self) -> None:
        """What is not ended yet is left as it is; a suspension that still stands ends it after the next start."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._stopped = True
        for ending in tuple(self._ending.values()):
            ending.cancel()

    def _end(self, owner: str, meant: Callable[[OwnedTask], bool], cause: str) -> None:
        """One turn of the reactor later, when everything is known that was committed together."""
        for link in self._links.all_of(owner):
            running = link.remote_id and not self._over(link.state) and meant(link)
            if self._stopped or not running or link.key in self._ending or len(self._ending) >= MOST_AT_ONCE:
                continue
            ending = self._ending[link.key] = Deferred.fromCoroutine(self._ended(link, cause))
            ending.addErrback(self._failed, link)
            ending.addBoth(self._done, link.key)

    def _done(self, _: object, key: str) -> None:
        self._ending.pop(key, None)

    def _failed(self, failure: Any, link: OwnedTask) -> None:
        if not self._stopped:
            log.warn(
                "upstream {upstream}: task {task} could not be ended: {why}",
                upstream=f"{self._protocol}.{link.upstream}",
                task=link.remote_id,
                why=failure.getErrorMessage(),
            )

    async def _ended(self, link: OwnedTask, cause: str) -> None:
        for pause in (*PAUSES, None):
            try:
                state = await self._cancel(link)
                break
            except AlreadyOver:
                return
            except UpstreamFailure:
                if pause is None:
                    raise
            await self._pause(pause)
        fields = {
            "protocol": self._protocol,
            "upstream": link.upstream,
            "remote_id": link.remote_id,
            "task_id": link.task_id,
            "caller_id": link.agent_id or link.owner,
            "state": state,
            "cause": cause,
        }
        event = StreamEvent(chain=HOST_CHAIN, event_type=CANCELLED, fields=fields)
        try:
            await self._submit(self._links.changes(replace(link, state=state)), (event,))
        except (LedgerUnavailable, StaleChange) as error:
            log.error("the end of task {task} is not kept: {why}", task=link.remote_id, why=str(error))

    async def _pause(self, seconds: float) -> None:
        waiting: Deferred[None] = Deferred()
        later = self._clock.callLater(seconds, waiting.callback, None)
        try:
            await waiting
        finally:
            if later.active():
                later.cancel()
