"""
Stop the tasks of an upstream whose caller was stopped, or gave them up.

SUSPEND of a Task-ID or Session-ID ends the tasks that run under it (adapters rule G6); suspending or revoking an agent
ends all of its tasks (core v08 section 7.2.16). The upstream is asked in the background, and its answer is stored and
signed.
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

RETRY_DELAYS = (1.0, 5.0, 30.0, 120.0)
"""Seconds between attempts to reach an upstream; after the last one the task is left running, and logged."""

MOST_AT_ONCE = 256
"""Tasks that are being ended at a time; more are not ended in the same pass."""

log = Logger(namespace="agtphost.upstreams")

Cancel = Callable[[OwnedTask], Awaitable[str]]
"""Asks the upstream to end a task, and returns the state afterwards. Fails with :class:`UpstreamFailure`."""


class AlreadyOver(UpstreamFailure):
    """The failure that the upstream has no such task, or it has ended."""


class TaskCancellation(Service):
    """
    The service that ends tasks of one protocol's upstreams.

    :param protocol: the protocol's name, such as ``a2a``.
    :param links: the tasks at upstreams, by the callers that own them.
    :param cancel: asks an upstream to end a task.
    :param is_final: returns whether a task's state is final.
    :param submit: commits the new state of a task, with its event.
    :param clock: times the pauses between attempts.
    """

    def __init__(
        self,
        protocol: str,
        links: TaskOwnership,
        cancel: Cancel,
        is_final: Callable[[str], bool],
        submit: Submit,
        clock: Any,
    ) -> None:
        self.name = f"{protocol} endings"
        self._protocol = protocol
        self._links = links
        self._cancel = cancel
        self._is_final = is_final
        self._submit = submit
        self._clock = clock
        self._ending: dict[str, Deferred[None]] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._ending)

    def cancel_suspended(self, owner: str, of: str, name: str) -> None:
        """
        End the tasks of a caller that suspended one of its tasks or sessions.

        :param of: ``task`` or ``session``.
        :param name: the Task-ID or Session-ID.
        """

        def matches(link: OwnedTask) -> bool:
            return name == (link.task_id if of == "task" else link.session_id)

        self._clock.callLater(0, self._begin_endings, owner, matches, f"SUSPEND of {of} {name}")

    def cancel_of_agent(self, owner: str, status: str) -> None:
        """
        End the tasks of an agent that was suspended or revoked.

        :param owner: one of the agent's owner names; there is one for each way its identity was known.
        """
        self._clock.callLater(0, self._begin_endings, owner, lambda link: True, f"its agent is {status}")

    def stopService(self) -> None:
        """
        Leave unfinished endings as they are; a suspension that is still in effect ends the tasks after the next start.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        self._stopped = True
        for ending in tuple(self._ending.values()):
            ending.cancel()

    def _begin_endings(self, owner: str, meant: Callable[[OwnedTask], bool], cause: str) -> None:
        """
        Begin to end tasks. It runs one turn of the reactor after the cause, when all changes of its commit are known.
        """
        for link in self._links.list_all_of(owner):
            running = link.remote_id and not self._is_final(link.state) and meant(link)
            if self._stopped or not running or link.key in self._ending or len(self._ending) >= MOST_AT_ONCE:
                continue
            ending = self._ending[link.key] = Deferred.fromCoroutine(self._end_task(link, cause))
            ending.addErrback(self._log_failure, link)
            ending.addBoth(self._remove, link.key)

    def _remove(self, _: object, key: str) -> None:
        self._ending.pop(key, None)

    def _log_failure(self, failure: Any, link: OwnedTask) -> None:
        if not self._stopped:
            log.warn(
                "upstream {upstream}: task {task} could not be ended: {why}",
                upstream=f"{self._protocol}.{link.upstream}",
                task=link.remote_id,
                why=failure.getErrorMessage(),
            )

    async def _end_task(self, link: OwnedTask, cause: str) -> None:
        for pause in (*RETRY_DELAYS, None):
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
