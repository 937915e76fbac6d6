"""
Subscriptions of MONITOR, and the notification of their subscribers: methods v01 sections 8.3 and 10.5.

Theory of operation. A subscription is a state item that stores the state of its target at the last notification. Each
possible change, of an item or of a lifecycle, and each requested interval leads to one comparison. Differences go into
the inbox in the transaction that stores the new state in the item. So each change is reported once, and after a restart
one comparison of each subscription reports what changed in between. A subscriber that may no longer subscribe is not
notified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.call_budget import OCTETS_PER_CALL
from agtphost.dispatch.decision import Objecting
from agtphost.dispatch.resumption import build_resumed_call
from agtphost.iagtp import ILedger
from agtphost.methods.oversight import notification
from agtphost.methods.standard.orchestration import monitor_state
from agtphost.methods.standard.orchestration.monitor_state import Observed
from agtphost.methods.standard.timer_queue import TimerQueue
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

MONITOR: Final = "monitor"
"""The kind of state item."""

TOPIC: Final = "monitor"
MOST_TOLD: Final = 50
"""Changes in one notification; of more, how many there were."""

AGAIN: Final = 5.0
"""Seconds until a failed notification is retried."""

log = Logger()


class Monitors:
    """
    Every subscription of a host.

    :param now: seconds since the epoch.
    """

    def __init__(self, held: StateTable, ledger: ILedger, clock: IReactorTime, now: Callable[[], float]) -> None:
        self.held = held
        self.now = now
        self._ledger = ledger
        self._clock = clock
        self._observed: Observed | None = None
        self._objection: Objecting | None = None
        self._timers = TimerQueue(clock, self._at_its_time)
        self._checks = TimerQueue(clock, self._report_changes)
        self._agents: dict[str, tuple[str, ...]] = {}
        self._of_agents: dict[str, set[str]] = {}
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._started = False
        self._stopping = False

    def turn_to(self, observed: Observed, objection: Objecting) -> None:
        """Observe these states from now on, for the subscribers to whom ``objection`` finds nothing to object."""
        self._observed, self._objection = observed, objection

    @property
    def observed_states(self) -> Observed:
        """The states that subscriptions observe."""
        assert self._observed is not None
        return self._observed

    def start(self) -> None:
        """Start reporting changes, including those that happened before the start."""
        if self._started:
            return
        for kind, _ in monitor_state.OWN.values():
            self.held.follow(kind, self._check_owned)
        self.held.follow(notification.NOTIFICATION, self._check_owned)
        self._started = True
        self._timers.enqueue(self.held.follow(MONITOR, self._update_subscription))

    def stop(self) -> None:
        """Send no further notices."""
        self._stopping = True
        self._timers.stop()
        self._checks.stop()

    def lifecycle(self, agent_id: str, state: LifecycleState) -> None:
        """Check the subscriptions about an agent whose lifecycle state has changed."""
        if self._started:
            self._checks.enqueue(self._of_agents.get(agent_id, ()))

    def _check_owned(self, key: str, item: StateItem | None) -> None:
        if item is not None and self._started:
            self._checks.enqueue(each.key for each in self.held.items_of(MONITOR, item.owner))

    def _update_subscription(self, key: str, item: StateItem | None) -> None:
        self._timers.drop(key)
        self._set_agents(key, () if item is None else item.brief["agents"])
        if item is None or self._stopping:
            self._checks.drop(key)
            return
        self._timers.at(key, item.brief["interval"])
        if key not in self._busy:
            self._checks.enqueue((key,))

    def _set_agents(self, key: str, agents: Iterable[str]) -> None:
        """Remember which agents a subscription is about."""
        for agent_id in self._agents.pop(key, ()):
            about = self._of_agents[agent_id]
            about.discard(key)
            if not about:
                del self._of_agents[agent_id]
        if agents:
            self._agents[key] = tuple(agents)
        for agent_id in agents:
            self._of_agents.setdefault(agent_id, set()).add(key)

    def _at_its_time(self, key: str) -> None:
        item = self.held.get(MONITOR, key)
        if item is not None and not self._stopping:
            self._set_agents(key, item.brief["agents"])
            self._timers.at(key, item.brief["interval"])
            self._report_changes(key)

    def _report_changes(self, key: str) -> None:
        if key in self._busy:
            self._again.add(key)
            return
        item = self.held.get(MONITOR, key)
        if item is None or self._observed is None or self._stopping:
            return
        value = item.value
        now = self._observed.read_states(value, value["seen"])
        changed = monitor_state.differences(value["seen"], now)
        if not changed:
            return
        self._busy.add(key)
        Deferred.fromCoroutine(self._notify(item, now, changed))

    async def _notify(self, item: StateItem, now: Mapping[str, Any], changed: list[dict[str, Any]]) -> None:
        # Each notification is a record, the notice itself, and the subscription written anew: a call pays for it.
        told = [each for each in changed if worth_telling(each)]
        why = await self._refusal_reason(item.value, calls_for(told[:MOST_TOLD], now))
        if why and why != Reason.AGENT_RETIRED:
            # Polled again at its next time: a subscriber that is permitted again gets the changes then.
            self._busy.discard(item.key)
            self._again.discard(item.key)
            return
        if why:
            await self._end(item)
            return
        value = item.value
        content: dict[str, Any] = {"subscription_id": item.key, "changes": told[:MOST_TOLD]}
        if len(told) > MOST_TOLD:
            content["more"] = len(told) - MOST_TOLD
        note: Change | None = None
        if told:
            note = notification.deposit(
                self.held,
                recipient=value["agent_id"],
                sender=value["agent_id"],
                topic=TOPIC,
                content=content,
                now=self.now(),
            )
        kept = {**value, "seen": monitor_state.drop_ended(now), "told": value["told"] + (note is not None)}
        if told and note is None:
            kept["missed"] = value["missed"] + len(told)
        changes = [Change(kind=MONITOR, key=item.key, value=kept, owner=item.owner, expected=item.version)]
        if note is not None:
            changes.append(note)
        fields = {"subscription_id": item.key, "agent_id": value["agent_id"], "delivered": note is not None}
        event = StreamEvent(chain=HOST_CHAIN, event_type="monitor", fields={**fields, "changes": len(told)})
        await self._keep(item, tuple(changes), event)
        if item.key in self._again:
            self._again.discard(item.key)
            self._report_changes(item.key)

    async def _refusal_reason(self, value: Mapping[str, Any], calls: int) -> str:
        """
        Return why the owner could no longer subscribe; empty if it could.

        :param calls: that the owner is charged for the notification.
        """
        authority = value.get("authority")
        if authority is None or self._objection is None:
            return ""
        given = {**{name: value[name] for name in ("target", "events")}, "callback": "inbox"}
        refusal = await self._objection(*build_resumed_call(authority, "MONITOR", "/", given), calls)
        return "" if refusal is None else str(refusal.reason)

    async def _end(self, item: StateItem) -> None:
        """End the subscription of a revoked agent for good."""
        gone = Change(kind=MONITOR, key=item.key, value=None, owner=item.owner, expected=item.version)
        fields = {"subscription_id": item.key, "agent_id": item.value["agent_id"], "ended": str(Reason.AGENT_RETIRED)}
        await self._keep(item, (gone,), StreamEvent(chain=HOST_CHAIN, event_type="monitor", fields=fields))

    async def _keep(self, item: StateItem, changes: tuple[Change, ...], event: StreamEvent) -> None:
        draft = Draft(chain=HOST_CHAIN, payload={}, changes=changes, events=(event,), performed=True)
        try:
            await self._ledger.submit(draft)
        except (LedgerUnavailable, StaleChange) as error:
            log.info("the notice of {key} is sent later: {why}", key=item.key, why=str(error))
            self._clock.callLater(AGAIN, self._checks.enqueue, (item.key,))
        finally:
            self._busy.discard(item.key)


def calls_for(told: Sequence[Mapping[str, Any]], states: Mapping[str, Any]) -> int:
    """Return how many calls pay for what is stored of a notification: its changes, and the states seen."""
    return 1 + len(jsontext.encode([list(told), dict(states)])) // OCTETS_PER_CALL


def worth_telling(change: Mapping[str, Any]) -> bool:
    """Return whether to report a change: not the removal of an ended item, and a threshold only when crossed."""
    after = change.get("to")
    if isinstance(after, Mapping):
        return bool(after.get("is"))
    return after is not None
