"""REPLY: an answer in the thread of what asked for it (methods v01 section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from twisted.internet.task import deferLater
from zope.interface import implementer

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.state import StateItem
from agtphost.dispatch.sessions import ESCALATION
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.addresses import MARK
from agtphost.handlers.authorization import OPERATOR
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import Search
from agtphost.identity import envelope
from agtphost.identity.required_assurance import is_believed
from agtphost.methods.oversight.escalation import escalated_by, may_decide
from agtphost.methods.oversight.notification import CONTENT, FEW, NOTIFICATION, URGENCIES, is_readable
from agtphost.methods.standard.messages.delivery import Delivered, deliver, prepare_changes
from agtphost.methods.standard.record_scan import RecordScan
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.quotas import APPROVAL
from agtphost.vocabulary.reasons import Reason

TOPIC = "reply"
LOOKS = 20
"""Looks for a QUERY that was answered: who replies to one does it soon."""

ROOM = 1_024
"""Octets of a notification that its thread takes."""

MOST_UNDER_TASK = 500
"""Escalations of one Task-ID that are looked through; more are in doubt, as those of several senders are."""

SHOWN = 16
"""Identifiers that are named where several messages have a Task-ID."""


@dataclass(frozen=True, kw_only=True)
class Thread:
    """The message that a reply answers."""

    kind: str
    """``notification``, ``escalation``, ``approval`` or ``query``."""

    to: tuple[str, ...]
    """Whose inboxes the answer goes into."""

    named: str
    """The recipient as the receipt has it: an Agent-ID, or a name."""

    root: str
    """What the thread began with."""

    key: str
    """The identifier of what is answered."""


@implementer(IBuiltInHandler)
class Replying:
    """The handler of REPLY; operators and people of ``[notify]``, who are not agents, reply as well."""

    kind = "built_in"
    operators = True
    people = True

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the REPLY call.

        :raises Refusal: 404 for what the caller was not asked, 409, 422, 429 where the inbox is full.
        """
        actor, given = self._parts.authorization.actor(context), context.input
        asked = parameters.identifier(given, "in_reply_to")
        content = parameters.read_json(given, "content", CONTENT - ROOM)
        if content is None:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        urgency = parameters.choice(given, "urgency", URGENCIES, "informational")
        thread = (
            self._find_notification(context, asked)
            or self._find_escalation(context, asked)
            or self._approval(context, asked)
        )
        thread = thread or await self._of_task(context, asked)
        if thread is None:
            raise not_found(
                Reason.TARGET_UNKNOWN,
                "No message with that identifier waits for a reply of the caller.",
                remedy="Send the Task-ID of a message in your inbox, of an escalation that you decide or of a QUERY "
                "that you answered; or a notification_id, an escalation_id or an approval_id.",
                parameter="in_reply_to",
            )
        said = {"in_reply_to": asked, "thread": thread.root, "of": thread.kind}
        found = Delivered()
        for start in range(0, len(thread.to), FEW):
            if start:
                await deferLater(self._parts.reactor, 0)
            found.add(
                deliver(
                    self._parts,
                    thread.to[start : start + FEW],
                    sender=actor,
                    topic=TOPIC,
                    content={**said, "content": content},
                    urgency=urgency,
                    in_reply_to=asked,
                    thread=thread.root,
                    task_id=context.task_id,
                )
            )
        if not found.changes:
            raise Refusal(Reason.INBOX_FULL, headers=(("Retry-After", "60"),))
        shown = {"reply_id": found.changes[0].key, **said, "recipient": thread.named}
        return Answer(result=shown, changes=await prepare_changes(self._parts, found.changes), extra={"reply": shown})

    def _find_notification(self, context: BuiltInContext, asked: str) -> Thread | None:
        item = self._parts.held.get(NOTIFICATION, asked)
        if item is None or not is_readable(self._parts.authorization, context, item):
            return None
        return _of_notice(item)

    def _find_escalation(self, context: BuiltInContext, asked: str) -> Thread | None:
        item = self._parts.held.get(ESCALATION, asked)
        return None if item is None else self._of_escalation(context, item)

    def _of_escalation(self, context: BuiltInContext, item: StateItem) -> Thread | None:
        """Return the thread of an escalation: from its decider to the agent, or from the agent to its recipient."""
        authorization = self._parts.authorization
        if may_decide(authorization, context, item):
            agent_id = escalated_by(item)
            return Thread(kind=ESCALATION, to=(agent_id,), named=agent_id, root=item.key, key=item.key)
        if authorization.find_caller(context) is None or context.owner != item.owner:
            return None
        recipient = str(item.brief["recipient"])
        if not recipient.startswith(MARK):
            to = recipient or OPERATOR
            return Thread(kind=ESCALATION, to=(to,), named=to, root=item.key, key=item.key)
        name = recipient.removeprefix(MARK)
        try:
            inboxes = self._parts.notification.inboxes(name)
        except Refusal:  # The configuration knows that name, or a member of that group, no longer.
            inboxes, name = (OPERATOR,), OPERATOR
        to_others = tuple(each for each in inboxes if each != escalated_by(item))
        return Thread(kind=ESCALATION, to=to_others, named=name, root=item.key, key=item.key)

    def _approval(self, context: BuiltInContext, asked: str) -> Thread | None:
        parts = self._parts
        item = parts.held.get(APPROVAL, asked)
        if item is None or not parts.authorization.approves(context, parts.approvals.policy.by):
            return None
        caller = str(item.value["caller"])
        return Thread(kind=APPROVAL, to=(caller,), named=caller, root=item.key, key=item.key)

    async def _of_task(self, context: BuiltInContext, asked: str) -> Thread | None:
        """
        Find the message of a Task-ID, which its sender has chosen: so one that is in doubt is refused.

        :raises Refusal: 409 where messages of several senders have that Task-ID; another agent may have reused it.
        """
        found = [*self._notified_under(context, asked), *self._escalated_under(context, asked)]
        query = await self._find_query(context, asked)
        found += [] if query is None else [query]
        if len({thread.to for thread in found}) > 1:
            raise _ambiguous([thread.key for thread in found])
        return found[0] if found else None

    def _notified_under(self, context: BuiltInContext, asked: str) -> list[Thread]:
        """Return threads of a Task-ID in the caller's inboxes, newest first."""
        held, authorization = self._parts.held, self._parts.authorization
        # The operator's inbox has no owner: what is readable there depends on the sender.
        notices = (
            item
            for owner in ("", *authorization.inboxes(context))
            for item in held.items_of(NOTIFICATION, owner)
            if item.brief.get("task_id") == asked and is_readable(authorization, context, item)
        )
        return [_of_notice(item) for item in sorted(notices, key=lambda item: str(item.brief["sent_at"]), reverse=True)]

    def _escalated_under(self, context: BuiltInContext, asked: str) -> list[Thread]:
        """Return escalations whose message had that Task-ID, or that stopped the task of that name."""
        held = self._parts.held
        named = chain(*[held.items_by(ESCALATION, name, asked) for name in TASKS])
        items = {item.key: item for item in islice(named, MOST_UNDER_TASK + 1)}
        found = [thread for item in items.values() if (thread := self._of_escalation(context, item)) is not None]
        if found and len(items) > MOST_UNDER_TASK:
            # Only callers who may see one of them learn that there are many.
            raise _ambiguous(())
        return found

    async def _find_query(self, context: BuiltInContext, asked: str) -> Thread | None:
        """Find a QUERY to the caller, a hosted agent, under that Task-ID."""
        caller = self._parts.authorization.find_caller(context)
        if caller is None or not caller.hosted or not is_believed(context.assurance):
            return None
        search = Search(chain=caller.agent_id, method="QUERY", task_id=asked)
        back = RecordScan(self._parts.records, search, 1, LOOKS)
        found = await back.further()
        payload = _payload(found[0]) if found else {}
        asker = payload.get("caller_id")
        if not isinstance(asker, str) or not asker or self._parts.directory.by_id(asker) is None:
            return None
        return Thread(kind="query", to=(asker,), named=asker, root=asked, key=asked)


TASKS = ("message_task_id", "task_id")
"""Members of an escalation that a Task-ID can be: that of the message, and that of the task which it stopped."""


def _ambiguous(keys: Sequence[str]) -> Refusal:
    return Refusal(
        Reason.TARGET_AMBIGUOUS,
        "Several messages of different senders have that Task-ID.",
        remedy="Send the notification_id or escalation_id of one of them.",
        details={"parameter": "in_reply_to", "messages": list(keys[:SHOWN])},
    )


def _of_notice(item: StateItem) -> Thread:
    value = item.value
    to = value["sender"].removeprefix("key:")  # People are known by their keys.
    return Thread(kind=NOTIFICATION, to=(to,), named=to, root=str(value.get("thread", item.key)), key=item.key)


def _payload(record: StoredRecord) -> Mapping[str, Any]:
    return envelope.parse_unverified(record.format, record.signed)
