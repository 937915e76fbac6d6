"""REPLY: an answer in the thread of what asked for it (methods v01 section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import StoredRecord
from agtphost.dispatch.sessions import ESCALATION
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import OPERATOR
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import Search
from agtphost.identity import envelope
from agtphost.identity.required_assurance import is_believed
from agtphost.methods.oversight.escalation import escalated_by
from agtphost.methods.oversight.notification import CONTENT, NOTIFICATION, URGENCIES
from agtphost.methods.standard.lookback import Lookback
from agtphost.methods.standard.messages.delivery import deliver
from agtphost.methods.standard.parts import Parts
from agtphost.vocabulary.holdings import APPROVAL
from agtphost.vocabulary.reasons import Reason

TOPIC = "reply"
LOOKS = 20
"""Looks for a QUERY that was answered: who replies to one does it soon."""

ROOM = 1_024
"""Octets of a notification that its thread takes."""


@dataclass(frozen=True, kw_only=True)
class Thread:
    """What is answered."""

    kind: str
    """``notification``, ``escalation``, ``approval`` or ``query``."""

    to: str
    """Whose inbox the answer goes into."""

    root: str
    """What the thread began with."""


@implementer(IBuiltInHandler)
class Replying:
    """Answers REPLY; operators reply as well, who are no agents."""

    kind = "built_in"
    operators = True

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Answer:
        """:raises Refusal: 404 for what the caller was not asked, 422, 429 where the inbox is full."""
        actor, given = self._parts.authorization.actor(context), context.input
        asked = parameters.identifier(given, "in_reply_to")
        content = parameters.kept(given, "content", CONTENT - ROOM)
        if content is None:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        urgency = parameters.choice(given, "urgency", URGENCIES, "informational")
        thread = self._notified(context, asked) or self._escalated(context, asked) or self._approval(context, asked)
        thread = thread or await self._queried(context, asked)
        if thread is None:
            raise not_found(
                Reason.TARGET_UNKNOWN,
                "Nothing of that identifier waits for a reply of the caller.",
                remedy="Send a notification_id of your inbox, an escalation_id or approval_id that you decide, or the "
                "Task-ID of a QUERY that you answered.",
                parameter="in_reply_to",
            )
        said = {"in_reply_to": asked, "thread": thread.root, "of": thread.kind}
        found = deliver(
            self._parts,
            (thread.to,),
            sender=actor,
            topic=TOPIC,
            content={**said, "content": content},
            urgency=urgency,
            in_reply_to=asked,
            thread=thread.root,
        )
        if not found.changes:
            raise Refusal(Reason.INBOX_FULL, headers=(("Retry-After", "60"),))
        shown = {"reply_id": found.changes[0].key, **said, "recipient": thread.to}
        return Answer(result=shown, changes=tuple(found.changes), extra={"reply": shown})

    def _notified(self, context: BuiltInContext, asked: str) -> Thread | None:
        item = self._parts.held.get(NOTIFICATION, asked)
        if item is None:
            return None
        authorization, value = self._parts.authorization, item.value
        caller = authorization.named(context)
        reader = authorization.person(context) if caller is None else caller.agent_id
        if value["recipient"] == OPERATOR:
            entitled = authorization.manages(context, value["sender"])
        else:
            entitled = bool(reader) and item.owner == reader
        if not entitled:
            return None
        return Thread(kind=NOTIFICATION, to=_inbox(value["sender"]), root=str(value.get("thread", asked)))

    def _escalated(self, context: BuiltInContext, asked: str) -> Thread | None:
        held, authorization = self._parts.held, self._parts.authorization
        item = held.get(ESCALATION, asked)
        for each in (item,) if item is not None else tuple(held.by(ESCALATION, "task_id", asked)):
            agent_id = escalated_by(each)
            if authorization.decides(context, agent_id, each.brief["recipient"]):
                return Thread(kind=ESCALATION, to=agent_id, root=each.key)
            if authorization.named(context) is not None and context.owner == each.owner:
                return Thread(kind=ESCALATION, to=each.brief["recipient"] or OPERATOR, root=each.key)
        return None

    def _approval(self, context: BuiltInContext, asked: str) -> Thread | None:
        parts = self._parts
        item = parts.held.get(APPROVAL, asked)
        if item is None or not parts.authorization.approves(context, parts.approvals.policy.by):
            return None
        return Thread(kind=APPROVAL, to=item.value["caller"], root=item.key)

    async def _queried(self, context: BuiltInContext, asked: str) -> Thread | None:
        """A QUERY that was asked of the caller, a hosted agent, under that Task-ID."""
        caller = self._parts.authorization.named(context)
        if caller is None or not caller.hosted or not is_believed(context.assurance):
            return None
        search = Search(chain=caller.agent_id, method="QUERY", task_id=asked)
        back = Lookback(self._parts.records, search, 1, LOOKS)
        found = await back.further()
        payload = _payload(found[0]) if found else {}
        asker = payload.get("caller_id")
        if not isinstance(asker, str) or not asker or self._parts.directory.by_id(asker) is None:
            return None
        return Thread(kind="query", to=asker, root=asked)


def _inbox(sender: str) -> str:
    """Whose inbox a sender reads: people are known by their keys."""
    return sender.removeprefix("key:")


def _payload(record: StoredRecord) -> Mapping[str, Any]:
    return envelope.parse_unverified(record.format, record.signed)
