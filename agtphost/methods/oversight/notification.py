"""
NOTIFY, and ``QUERY /notifications``: core v08 section 7.2.13.

A notification goes to the hosted agent's own endpoint ``NOTIFY
/notifications`` where the operator has bound one, and else into the
recipient's inbox, from where the recipient reads it with ``QUERY
/notifications`` and takes it out with CONFIRM of its ``notification_id``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.audit.prepared_items import prepare
from agtphost.audit.state import StateItem, StateTable
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.addresses import MARK, owner_of_inbox
from agtphost.handlers.authorization import OPERATOR, Authorization, owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.methods.continuation import Continuations
from agtphost.methods.oversight import inbox_shares
from agtphost.methods.oversight.inbox_shares import is_little
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.own_address import NOWHERE, OwnAddress
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor
from agtphost.vocabulary.uris import SCHEME

NOTIFICATION = "notification"
"""The kind of state item."""

BROADCAST = "infrastructure:broadcast"
"""The recipient of news for the operator of a host, such as a revoked certificate: the operator's inbox."""

PATH = "/notifications"
INBOX_NAME = "inbox"
"""What a caller writes for its own inbox."""

URGENCIES = ("critical", "informational", "background")
GUARANTEES = ("at_most_once", "at_least_once", "exactly_once")
CONTENT = 16_384
"""Octets of a notification."""

FEW = 25
"""Notifications of one message up to which they are not worth a thread, and that are written in one go."""

MOST = 1_000
"""Inboxes that one message goes into."""

MOST_TOLD = 100
"""Of a message to a group: as many of its notifications are named in the record, which every answer carries."""

INBOX = 500
PER_SENDER = 100
"""Unread notifications from one sender in one inbox, so that none fills it alone."""

KEPT = 7 * 86_400
LONGEST = 30 * 86_400
"""Seconds: without an expiry, and at most."""


RECEIPT = ("notification_id", "recipient", "urgency", "delivery_guarantee", "status", "duplicate", "reason")
"""The members of a notification that its sender sees."""


def deposit(
    held: StateTable,
    *,
    recipient: str,
    sender: str,
    topic: str,
    content: Mapping[str, Any],
    now: float,
    urgency: str = "informational",
    until: float | None = None,
    **more: Any,
) -> Change | None:
    """
    Return the change that puts a notification of the host into an inbox, to be committed with the event that it
    reports.

    :param recipient: an Agent-ID, or :data:`~agtphost.handlers.authorization.OPERATOR`.
    :param sender: whose doing it is, and whose share of the inbox it takes.
    :param until: expiry in seconds since the epoch; None: seven days from now.
    :param more: further members, such as what it answers.
    :return: its ``key`` is the ``notification_id``; None where the inbox takes no more of this sender.
    """
    if is_full(held, recipient, sender):
        return None
    value = {
        "notification_id": f"ntf-{secrets.token_hex(16)}",
        "recipient": recipient,
        "sender": sender,
        "topic": topic,
        "content": dict(content),
        "urgency": urgency,
        "delivery_guarantee": "exactly_once",
        "expiry": None if until is None else times.instant(int(until * 1_000_000)),
        "sent_at": times.instant(int(now * 1_000_000)),
        "status": "held",
        **more,
    }
    return _put_notification(value, min(now + LONGEST, now + KEPT if until is None else until))


def names_inbox_of(text: str, agent: Agent, address: OwnAddress) -> bool:
    """
    Return whether a callback names the inbox of an agent.

    :param text: ``inbox``, ``/notifications``, or the agent by its Agent-ID, name or ``agtp:`` URI, each with
        ``/notifications`` after it or without.
    :param address: of this host.
    """
    plain = address.local_path(text) or text.removeprefix(f"{SCHEME}://")
    if plain in (INBOX_NAME, PATH):
        return True
    return plain.removesuffix(PATH).removeprefix("/agents/") in (agent.agent_id, agent.name)


def is_full(held: StateTable, recipient: str, sender: str) -> bool:
    """Return whether an inbox accepts no more from a sender."""
    if held.open(NOTIFICATION, _reader(recipient)) < PER_SENDER:
        return False
    unread = [item.brief for item in _inbox(held, recipient) if item.brief["status"] == "held"]
    return len(unread) >= INBOX or sum(1 for brief in unread if brief["sender"] == sender) >= PER_SENDER


def _inbox(held: StateTable, recipient: str) -> Iterable[StateItem]:
    return held.items_of(NOTIFICATION, _reader(recipient))


def _reader(recipient: str) -> str:
    return "" if recipient == OPERATOR else owner_of_inbox(recipient)


async def prepare_changes(offload: Executor, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes ready to be stored, prepared off the reactor where they are many."""
    if len(changes) <= FEW:
        return tuple(changes)
    found: tuple[Change, ...] = await offload(prepare, changes)
    return found


def _put_notification(value: Mapping[str, Any], until: float) -> Change:
    recipient = value["recipient"]
    return Change(
        kind=NOTIFICATION,
        key=value["notification_id"],
        value=value,
        owner=_reader(recipient),
        expires_at=int(until * 1000),
        expected=0,
    )


def _unknown_recipient() -> Refusal:
    return Refusal(
        Reason.RECIPIENT_UNKNOWN,
        "The recipient is not an agent, person or group that this host knows, or the operator.",
        remedy="Send an Agent-ID, the name of a hosted agent, of a configured person or group, or operator.",
        details={"parameter": "recipient"},
    )


@implementer(IBuiltInHandler)
class Notification:
    """
    Answers NOTIFY and ``QUERY /notifications``.

    :param bindings: everything that can be called, for the agents' own endpoints.
    :param offload: calls a function off the reactor.
    :param states: returns the present lifecycle state of an agent.
    :param hosts: Agent-IDs by which other hosts tell the operator of lifecycles and certificates.
    :param cancel: answers a NOTIFY that ends a subscription of MONITOR; None for every other.
    """

    kind = "built_in"

    def __init__(
        self,
        held: StateTable,
        directory: IAgentDirectory,
        authorization: Authorization,
        bindings: Callable[[], Iterable[Binding]],
        offload: Executor,
        states: Callable[[Agent], LifecycleState],
        now: Callable[[], float] = time.time,
        continuations: Continuations | None = None,
        hosts: Collection[str] = (),
        cancel: Callable[[BuiltInContext], Answer | None] = lambda context: None,
        address: OwnAddress = NOWHERE,
    ) -> None:
        self._cancel = cancel
        self._offload = offload
        self._states = states
        self._addresses = authorization.addresses
        self._hosts = frozenset(hosts)
        self._address = address
        self._continuations = continuations or Continuations(now=now)
        self._held = held
        self._directory = directory
        self._authorization = authorization
        self._bindings = bindings
        self._now = now
        self._instants = times.Instants()

    def handle(self, context: BuiltInContext) -> Any:
        return self._read(context) if context.method == "QUERY" else self._notify(context)

    # NOTIFY

    async def _notify(self, context: BuiltInContext) -> Answer:
        given, now = context.input, self._now()
        owner_of(context)
        cancelled = self._cancel(context)
        if cancelled is not None:
            return cancelled
        named = parameters.identifier(given, "recipient")
        members = self._members(named)
        if members is not None:
            return await self._to_group(context, named, members, now)
        recipient, agent = self._recipient(named)
        value = self._write_notification(context, recipient, now)
        known = self._held.get(NOTIFICATION, value["notification_id"])
        if known is not None:
            return _receipt({**known.value, "duplicate": True})
        until = self._read_expiry(given, now)
        if until <= now:
            return _receipt({**value, "status": "expired"})
        if agent is not None and self._has_endpoint(agent):
            return await self._deliver(context, agent, value, until)
        return self._store(value, until)

    @staticmethod
    def _read_expiry(given: Mapping[str, Any], now: float) -> float:
        expiry = parameters.moment(given, "expiry")
        return min(now + LONGEST, expiry if expiry is not None else now + KEPT)

    async def _to_group(self, context: BuiltInContext, group: str, members: Iterable[str], now: float) -> Answer:
        """Put a message into the inbox of each member, or of none, in one transaction (core v08 section 7.2.13)."""
        recipients = dict.fromkeys(self._recipient(member)[0] for member in members)
        until = self._read_expiry(context.input, now)
        message = self._message(context, now)
        told, changes = [], []
        for number, recipient in enumerate(recipients, 1):
            value = self._address_message(context, message, recipient)
            known = self._held.get(NOTIFICATION, value["notification_id"])
            if known is not None:
                value = {**known.value, "duplicate": True}
            elif until <= now:
                value = {**value, "status": "expired"}
            else:
                self._require_room(value)
                changes.append(_put_notification(value, until))
            told.append(_receipt_members(value))
            if not number % FEW:
                await self._offload(bool)  # The others have their turn.
        return Answer(
            status=Status.ACCEPTED if changes else Status.OK,
            result={"recipient": group, "notifications": told},
            changes=await prepare_changes(self._offload, changes),
            extra={"notification_ids": [each["notification_id"] for each in told[:MOST_TOLD]], "notified": group},
        )

    def inboxes(self, named: str) -> tuple[str, ...]:
        """
        Return the inboxes of a name: an agent's, a person's, the operator's, or those of a group's
        members.

        :raises Refusal: 404 for an unknown name, 422 for too many.
        """
        members = self._members(named)
        found = (named,) if members is None else members
        return tuple(dict.fromkeys(self._recipient(each)[0] for each in found))

    def _members(self, named: str) -> Sequence[str] | None:
        """
        Return the members of a group that are not retired; None where the name is not a group's.

        :raises Refusal: 422 for too many, 404 where all are retired.
        """
        members = self._addresses.groups.get(named) if named not in (OPERATOR, BROADCAST) else None
        if members is not None and len(members) > MOST:
            raise parameters.invalid("recipient", f"{named} has more than {MOST} members.", "Send to fewer recipients.")
        if members is None:
            return None
        people = self._addresses.people
        left = [each for each in members if each in people or not self._is_retired(self._agent(each))]
        if members and not left:
            raise _unknown_recipient()
        return left

    def _write_notification(self, context: BuiltInContext, recipient: str, now: float) -> dict[str, Any]:
        """Return the notification for one recipient."""
        return self._address_message(context, self._message(context, now), recipient)

    def _message(self, context: BuiltInContext, now: float) -> dict[str, Any]:
        """Return the members that all recipients get."""
        given = context.input
        if "content" not in given:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        guarantee = parameters.choice(given, "delivery_guarantee", GUARANTEES, "at_least_once")
        topic = parameters.text(given, "topic")
        return {
            "recipient": "",
            "sender": owner_of(context).agent_id,
            **({} if context.task_id is None else {"task_id": context.task_id}),
            "topic": topic,
            "content": parameters.read_json(given, "content", CONTENT),
            "urgency": parameters.choice(given, "urgency", URGENCIES, "informational"),
            "delivery_guarantee": guarantee,
            "expiry": given.get("expiry"),
            "sent_at": self._instants.stamp(now),
            "status": "held",
        }

    def _address_message(self, context: BuiltInContext, message: Mapping[str, Any], recipient: str) -> dict[str, Any]:
        """Return the message for one recipient."""
        value = {**message, "recipient": recipient}
        if recipient == OPERATOR:
            value["sender_owner"] = inbox_shares.share_of(owner_of(context))
            critical = value["urgency"] == "critical"
            value["places"] = inbox_shares.places_of(critical=critical, host=self._is_host(context, value["sender"]))
        value["notification_id"] = f"ntf-{self._number(value)}"
        return value

    def _is_host(self, context: BuiltInContext, sender: str) -> bool:
        return sender in self._hosts and self._authorization.find_caller(context) is not None

    def _recipient(self, named: str) -> tuple[str, Agent | None]:
        """Return the inbox of a name: an Agent-ID, the marked name of a person, or the operator's."""
        # In this order: no name of a person takes the operator's mail, and no new agent a person's.
        if named in (OPERATOR, BROADCAST):
            return OPERATOR, None
        if named in self._addresses.people:
            return f"{MARK}{named}", None
        agent = self._agent(named)
        # A retired agent never reads its inbox again.
        if agent is None or self._is_retired(agent):
            raise _unknown_recipient()
        return agent.agent_id, agent

    def _agent(self, named: str) -> Agent | None:
        label = self._address.agent_label(named)
        return self._directory.by_id(label) if is_agent_id(label) else self._directory.by_name(label)

    def _is_retired(self, agent: Agent | None) -> bool:
        return agent is not None and self._states(agent).status is LifecycleStatus.RETIRED

    @staticmethod
    def _number(value: Mapping[str, Any]) -> str:
        """Random, but for what must arrive exactly once: there the same notification has the same number."""
        if value["delivery_guarantee"] != "exactly_once":
            return secrets.token_hex(16)
        same = [value[name] for name in ("sender", "recipient", "topic", "content", "expiry")]
        return sha256(canonical(same)).hexdigest()[:32]

    def _has_endpoint(self, agent: Agent) -> bool:
        return agent.hosted and any(
            binding.method == "NOTIFY"
            and binding.path == PATH
            and (not binding.agents or agent.agent_id in binding.agents)
            for binding in self._bindings()
        )

    async def _deliver(self, context: BuiltInContext, agent: Agent, value: Mapping[str, Any], until: float) -> Answer:
        """Deliver to the agent's own endpoint, in the sender's name and through every gate."""
        # The Task-ID is in its field; an endpoint's schema may know no further member.
        inner = ("status", "recipient", "task_id")
        shown = {name: value[name] for name in value if name not in inner and value[name] is not None}
        try:
            await context.invoke("NOTIFY", f"/agents/{agent.name}{PATH}", shown)
        except Refusal as refusal:
            if value["delivery_guarantee"] == "at_most_once":
                return _receipt({**value, "status": "undelivered", "reason": refusal.reason})
            return self._store(value, until)
        delivered = {**value, "status": "delivered", "content": None}
        return _receipt(delivered, _put_notification(delivered, until))

    def _store(self, value: Mapping[str, Any], until: float) -> Answer:
        self._require_room(value)
        return _receipt(value, _put_notification(value, until))

    def _require_room(self, value: Mapping[str, Any]) -> None:
        if value["recipient"] == OPERATOR:
            unread = (item for item in _inbox(self._held, OPERATOR) if item.brief["status"] == "held")
            inbox_shares.require_share(unread, value["sender_owner"], value["places"])
        elif is_full(self._held, value["recipient"], value["sender"]):
            raise Refusal(
                Reason.INBOX_FULL,
                "The recipient's inbox accepts no more from this sender until some of it is read.",
                remedy="Try again later.",
                headers=(("Retry-After", "60"),),
            )

    # QUERY /notifications

    def _read(self, context: BuiltInContext) -> Any:
        self._authorization.actor(context)
        given, caller = context.input, self._authorization.find_caller(context)
        box = parameters.choice(given, "box", ("inbox", "sent"), "inbox")
        urgency = parameters.choice(given, "urgency", (*URGENCIES, "all"), "all")
        limit = parameters.count(given, "limit", 50, INBOX)
        items: Iterable[StateItem] = ()
        if caller is not None and box == "sent":
            items = self._held.items_by(NOTIFICATION, "sender", caller.agent_id)
        elif box == "inbox":
            items = self._unread(context, caller)

        def part() -> Answer:
            shown = sorted((item for item in items if urgency in ("all", item.brief["urgency"])), key=_place)
            part = self._continuations.part(context, shown, limit, _place)
            return Answer(
                result={"notifications": [_notification_to_json(item) for item in part.items], "count": len(shown)},
                headers=part.headers,
            )

        return part() if is_little(self._held, NOTIFICATION) else self._offload(part)

    def _unread(self, context: BuiltInContext, caller: Agent | None) -> Iterator[StateItem]:
        """Yield the unread messages that the caller may read: its own, a person's, or the operator's."""
        own = [_inbox(self._held, reader) for reader in self._authorization.inboxes(context)]
        every: Iterable[StateItem] = ()
        if caller is None or self._authorization.may(context, OperatorAction.DECIDE):
            every = _inbox(self._held, OPERATOR)
        managed = (
            item for item in every if self._authorization.manages(context, item.brief["sender"], OperatorAction.DECIDE)
        )
        return (item for item in chain(*own, managed) if item.brief["status"] == "held")


def is_readable(authorization: Authorization, context: BuiltInContext, item: StateItem) -> bool:
    """Return whether a notification is the caller's to read, to confirm and to answer."""
    if not item.owner:
        return authorization.manages(context, item.brief["sender"], OperatorAction.DECIDE)
    return item.owner in authorization.inboxes(context)


def _notification_to_json(item: StateItem) -> dict[str, Any]:
    shown = {name: value for name, value in item.value.items() if name != "places"}
    return {**shown, "recipient": name_of_inbox(shown["recipient"])}


def _place(item: StateItem) -> list[Any]:
    """Return the sort key of a notification."""
    return [URGENCIES.index(item.brief["urgency"]), item.brief["sent_at"], item.key]


def name_of_inbox(inbox: str) -> str:
    """Return what callers know an inbox by: an Agent-ID, a person's name, a key, or ``operator``."""
    return inbox.removeprefix(MARK)


def _receipt_members(value: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value[name] for name in RECEIPT if name in value}
    return {**shown, "recipient": name_of_inbox(value["recipient"])}


def _receipt(value: Mapping[str, Any], *changes: Change) -> Answer:
    return Answer(
        status=Status.ACCEPTED if value["status"] == "held" else Status.OK,
        result=_receipt_members(value),
        changes=changes,
        extra={"notification_id": value["notification_id"], "notified": name_of_inbox(value["recipient"])},
    )
