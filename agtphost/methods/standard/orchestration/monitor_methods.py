"""
MONITOR, and NOTIFY with ``monitor_cancel``: methods v01 sections 8.3 and 10.5.

Observations go to the subscriber's own inbox only: no address that a caller names is ever called.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.dispatch.resumption import caller_to_json
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization, owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.oversight import notification
from agtphost.methods.oversight.notification import INBOX_NAME, names_inbox_of
from agtphost.methods.standard.orchestration import monitor_state, workflow_items
from agtphost.methods.standard.orchestration.monitors import MONITOR, Monitors
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.own_address import OwnAddress
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

PATH: Final = "/monitors"
CANCEL: Final = "monitor_cancel"
SHORTEST, USUAL, LONGEST = 5.0, 60.0, 86_400.0
"""Seconds between two polls of states that announce no changes."""

OWN, SELF = "own", "self"
_AGENTS: Final = ("agent", "agents")
MOST_TARGETS: Final = 100
"""Agents, upstreams and items of one subscription."""


@implementer(IBuiltInHandler)
class Listing:
    """Answers ``QUERY /monitors``: the caller's own subscriptions."""

    kind = "built_in"

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors

    def handle(self, context: BuiltInContext) -> Answer:
        owner_of(context)
        own = [subscription_to_json(item.value) for item in self._monitors.held.items_of(MONITOR, context.owner)]
        return Answer(result={"monitors": own, "count": len(own)})


@implementer(IBuiltInHandler)
class Monitoring:
    """The handler of MONITOR."""

    kind = "built_in"

    def __init__(
        self, monitors: Monitors, visibility: Visibility, authorization: Authorization, address: OwnAddress
    ) -> None:
        self._monitors = monitors
        self._address = address
        self._visibility = visibility
        self._authorization = authorization

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Return a new subscription, and the change that stores it; observation begins once that is committed.

        :raises Refusal: 422 for an invalid parameter; 404 for a target that the caller could not observe; 403 for a
            callback that is not its own inbox, and for a caller whose proof ends with the call, such as a delegation;
            429 if its inbox is full.
        """
        caller, given = owner_of(context), context.input
        self._require_callback(given, caller)
        events = self._events(given)
        target = given.get("target")
        value: dict[str, Any] = {
            "subscription_id": f"mon-{secrets.token_hex(16)}",
            "agent_id": caller.agent_id,
            "owner": context.owner,
            "events": events,
            "target": target,
            # What is observed besides agents: "own" for the caller's items, or upstreams and items by name.
            "about": OWN,
            "agents": [],
            "threshold": _threshold(given),
            "interval": self._interval(given),
            "authority": caller_to_json(context.invocation.exchange),
            "created_at": workflow_items.stamp(self._monitors.now()),
            # Notices that were sent, and changes that were lost because the inbox was full.
            "told": 0,
            "missed": 0,
        }
        self._resolve_target(context, caller, target, value)
        if value["authority"] is None:
            raise Refusal(Reason.WORKFLOW_UNPROVEN, status=Status.FORBIDDEN)
        # The states that the next look is compared with.
        value["seen"] = monitor_state.drop_ended(self._monitors.observed_states.read_states(value, {}))
        if notification.is_full(self._monitors.held, caller.agent_id, caller.agent_id):
            raise Refusal(Reason.INBOX_FULL, remedy="Read and confirm the waiting messages, and subscribe again.")
        made = Change(kind=MONITOR, key=value["subscription_id"], value=value, owner=context.owner, expected=0)
        return Answer(
            result=subscription_to_json(value),
            changes=(made,),
            extra={"monitor": {"subscription_id": value["subscription_id"]}},
        )

    def _require_callback(self, given: Mapping[str, Any], caller: Agent) -> None:
        """Check that ``callback`` names the caller's own inbox."""
        callback = parameters.require_text(given, "callback")
        if not names_inbox_of(callback, caller, self._address):
            raise Refusal(Reason.CALLBACK_NOT_YOURS, details={"parameter": "callback"})

    @staticmethod
    def _events(given: Mapping[str, Any]) -> list[str]:
        value = given.get("events")
        events = [value] if isinstance(value, str) else value
        if not isinstance(events, list) or not events or not all(event in monitor_state.EVENTS for event in events):
            known = ", ".join(monitor_state.EVENTS)
            raise parameters.invalid("events", f"events is not a list of these: {known}.", f"Use {known}.")
        return list(dict.fromkeys(events))

    @staticmethod
    def _interval(given: Mapping[str, Any]) -> float:
        value = given.get("interval", USUAL)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise parameters.invalid("interval", "interval is not a number of seconds.", f"Send {SHORTEST:g} or more.")
        return float(min(max(value, SHORTEST), LONGEST))

    def _resolve_target(self, context: BuiltInContext, caller: Agent, target: Any, value: dict[str, Any]) -> None:
        """
        Set the members ``agents``, ``metric`` and ``about`` of a subscription by the target that the caller names.

        :raises Refusal: 404 for a target that the caller could not observe; 422 for a malformed one.
        """
        target = self._localize(target)
        if isinstance(target, list):
            named = _several(target)
        else:
            named = dict(target) if isinstance(target, Mapping) else _text(target)
        metric = named.pop("metric", None)
        if monitor_state.METRIC in value["events"]:
            if metric not in monitor_state.METRICS:
                known = ", ".join(monitor_state.METRICS)
                raise parameters.invalid("target", f"target names no metric: {known}.", "Send metric in target.")
            value["metric"] = metric
        agents = named.pop("agent", named.pop("agents", None))
        if agents is not None:
            value["agents"] = self._agents(context, caller, agents)
        upstream, item = named.pop("upstream", None), named.pop("id", None)
        if named:
            raise parameters.invalid("target", f"target has the member {next(iter(named))[:40]!r}.", "Leave it out.")
        keys = _as_list(item)
        upstreams = self._find_upstreams(context, value, _as_list(upstream))
        own = [OWN] if isinstance(target, list) and OWN in map(_plain, target) else []
        about = [*own, *upstreams, *(self._item(context, key, value["events"]) for key in keys)]
        if about:
            value["about"] = about[0] if len(about) == 1 else about

    def _localize(self, target: Any) -> Any:
        """Return a target with the names of agents in place of this host's own ``agtp:`` URIs of them."""
        if isinstance(target, list):
            return [self._localize(each) for each in target]
        if isinstance(target, Mapping):
            return {name: self._localize(each) if name in _AGENTS else each for name, each in target.items()}
        path = self._address.local_path(target) if isinstance(target, str) else None
        return target if path is None else path.removeprefix("/agents/")

    def _find_upstreams(self, context: BuiltInContext, value: Mapping[str, Any], named: Sequence[Any]) -> list[str]:
        """
        Return the upstreams to observe.

        :param named: their names, as INSPECT and lists of tools have them (``files``) or with the kind (``mcp.files``).
        :raises Refusal: 404 where an event has no target, or where an upstream is unknown; 422 where no event is about
            upstreams.
        """
        events = value["events"]
        wants_agents = {monitor_state.LIFECYCLE, monitor_state.TRUST} & {*events, value.get("metric")}
        if wants_agents and not value["agents"]:
            raise not_found(Reason.MONITOR_TARGET_UNKNOWN, parameter="target")
        if monitor_state.UPSTREAM not in events:
            if named:
                raise parameters.invalid(
                    "target",
                    f"target names an upstream, and events has no {monitor_state.UPSTREAM}.",
                    f"Add {monitor_state.UPSTREAM} to events, or leave the upstream out.",
                )
            return []
        # Who may know of upstreams is who may look at them (INSPECT target=upstreams).
        self._authorization.require_looking(context, "Only operators see upstreams.")
        known = [name for name, _ in self._monitors.observed_states.upstreams()]
        found = [[each for each in known if name in (each, each.partition(".")[2])] for name in named]
        if not found or not all(found):
            raise not_found(Reason.MONITOR_TARGET_UNKNOWN, parameter="target")
        return list(dict.fromkeys(each for names in found for each in names))

    def _agents(self, context: BuiltInContext, caller: Agent, named: Any) -> list[str]:
        wanted: Sequence[Any] = named if isinstance(named, list) else [named]
        if not wanted or len(wanted) > MOST_TARGETS:
            raise parameters.invalid("target", f"target names no agent, or more than {MOST_TARGETS}.", "Name some.")
        directory, sees = self._monitors.observed_states.directory, self._visibility.in_lists(context)
        found = []
        for name in wanted:
            agent = caller if name == SELF else None
            if agent is None and isinstance(name, str):
                agent = directory.by_id(name) if is_agent_id(name) else directory.by_name(name)
            own = agent is not None and agent.agent_id == caller.agent_id
            if agent is None or not (own or (agent.hosted and sees(agent)) or self._visibility.is_own(context, agent)):
                raise not_found(Reason.MONITOR_TARGET_UNKNOWN, parameter="target")
            found.append(agent.agent_id)
        return list(dict.fromkeys(found))

    def _item(self, context: BuiltInContext, key: Any, events: Sequence[str]) -> str:
        """Return the key of the caller's own workflow, escalation or approval."""
        for event in events:
            if event in monitor_state.OWN:
                item = self._monitors.held.get(monitor_state.OWN[event][0], str(key))
                if item is not None and item.owner == context.owner:
                    return item.key
        raise not_found(Reason.MONITOR_TARGET_UNKNOWN, parameter="target")


def cancelling(monitors: Monitors) -> Callable[[BuiltInContext], Answer | None]:
    """
    Return the function that NOTIFY asks first: whether the call cancels a subscription.

    :return: gives None for every other NOTIFY.
    """

    def cancel(context: BuiltInContext) -> Answer | None:
        content = context.input.get("content")
        content = content if isinstance(content, Mapping) else {}
        event = content.get("event_type", content.get("event", context.input.get("topic")))
        if event != CANCEL:
            return None
        owner_of(context)
        key = parameters.identifier(content, "subscription_id")
        item = monitors.held.get(MONITOR, key)
        if item is None or item.owner != context.owner:
            raise not_found(Reason.MONITOR_UNKNOWN)
        gone = Change(kind=MONITOR, key=key, value=None, owner=item.owner, expected=item.version)
        said = {"subscription_id": key, "status": "cancelled", "told": item.value["told"]}
        return Answer(result=said, changes=(gone,), extra={"monitor": said})

    return cancel


def subscription_to_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subscription as its owner sees it."""
    names = ("subscription_id", "target", "events", "threshold", "interval", "created_at", "told", "missed")
    return {**{name: value[name] for name in names if value.get(name) is not None}, "callback": INBOX_NAME}


def _threshold(given: Mapping[str, Any]) -> dict[str, float] | None:
    """
    Return the bound of a metric, by ``above`` or ``below``; None without one.

    A number alone is a lower bound, as for the draft's trust score.
    """
    value = given.get("threshold")
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"below": float(value)}
    if isinstance(value, Mapping) and len(value) == 1:
        ((side, bound),) = value.items()
        if side in ("above", "below") and isinstance(bound, (int, float)) and not isinstance(bound, bool):
            return {side: float(bound)}
    raise parameters.invalid("threshold", "threshold is neither a number nor above or below one.", 'Send {"below": 5}.')


def _plain(target: str) -> str:
    return target.removeprefix("agtp://")


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _several(targets: list[Any]) -> dict[str, Any]:
    """
    Read a list of targets: agents, upstreams and the caller's own items, together.

    :raises Refusal: 422 for an empty list, more than a subscription has, or a member that is not text.
    """
    if not 0 < len(targets) <= MOST_TARGETS or not all(isinstance(each, str) for each in targets):
        raise parameters.invalid(
            "target", f"target is not a list of 1 to {MOST_TARGETS} names.", "Send Agent-IDs, names or upstream:NAME."
        )
    found: dict[str, list[Any]] = {}
    for each in targets:
        for kind, name in _text(each).items():
            if kind == "metric":
                raise parameters.invalid("target", "A list of targets has no metric.", "Send metric in an object.")
            found.setdefault(kind, []).append(name)
    return dict(found)


def _text(target: Any) -> dict[str, Any]:
    """Read a target that is a text: an agent, ``own``, ``upstream:NAME``, ``metric:NAME``, or an own item's key."""
    if not isinstance(target, str) or not target:
        raise parameters.invalid("target", "target is missing.", "Send an Agent-ID, or an object.", missing=True)
    plain = _plain(target)
    if plain in (OWN, SELF):
        return {} if plain == OWN else {"agent": SELF}
    kind, colon, name = plain.partition(":")
    if colon and kind in ("upstream", "metric"):
        return {kind: name}
    return {"id": plain} if plain.startswith(("wf-", "esc-", "apr-")) else {"agent": plain}
