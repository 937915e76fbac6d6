"""BROADCAST: one message for a whole audience, without expected answers (methods v01 section 7.2)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from twisted.internet.task import deferLater
from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.oversight.notification import CONTENT
from agtphost.methods.standard.messages.delivery import MOST, Delivered, deliver, prepare_changes
from agtphost.methods.standard.messages.send import Sending
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import times
from agtphost.vocabulary.identifiers import is_opaque_id

TOPIC = "broadcast"
AGTP = "agtp"
CHANNELS = (AGTP, "email", "webhook", "sms")
ZONE = "zone:"
AT_ONCE = 25
"""Inboxes that are looked into before others have their turn."""

MOST_NAMED = 200
"""Names in an audience that is a list."""


@implementer(IBuiltInHandler)
class Broadcasting:
    """
    The handler of BROADCAST.

    :param sending: delivers over the channels that leave AGTP.
    """

    kind = "built_in"

    def __init__(self, parts: MethodServices, sending: Sending) -> None:
        self._parts = parts
        self._sending = sending

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the BROADCAST call.

        :raises Refusal: 422 for an unknown audience, 503 for a channel without a provider.
        """
        sender, given, now = owner_of(context).agent_id, context.input, self._parts.now()
        channel = parameters.choice(given, "channel", CHANNELS, AGTP)
        content = parameters.read_json(given, "content", CONTENT)
        if content is None:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        until = parameters.moment(given, "expiry")
        named = _read_audience(given)
        message_id = f"msg-{secrets.token_hex(16)}"
        shown: dict[str, Any] = {"message_id": message_id, "channel": channel, "sent_at": times.stamp(now)}
        if channel != AGTP:
            late = until is not None and until <= now
            count, failed = (0, []) if late else await self._sending.to_all(context, channel, named, content)
            told = {"delivered": count, "undelivered": failed, "status": "expired" if late else "sent"}
            return Answer(result={**shown, **told}, extra={"broadcast": {**shown, "delivered": count}})
        audience, unknown = self._audience(named, sender)
        if until is not None and until <= now:
            told = {"delivered": 0, "undelivered": [], "unknown": unknown, "status": "expired"}
            return Answer(result={**shown, **told}, extra={"broadcast": {**shown, "delivered": 0}})
        body = {"message_id": message_id, "content": content}
        found = Delivered()
        for start in range(0, len(audience), AT_ONCE):
            if start:
                await deferLater(self._parts.reactor, 0)
            some = audience[start : start + AT_ONCE]
            found.add(
                deliver(
                    self._parts,
                    some,
                    sender=sender,
                    topic=TOPIC,
                    content=body,
                    urgency="informational",
                    until=until,
                    task_id=context.task_id,
                )
            )
        told = {
            "delivered": len(found.reached),
            "undelivered": found.full,
            "unknown": unknown,
            "status": "sent",
        }
        return Answer(
            result={**shown, **told},
            changes=await prepare_changes(self._parts, found.changes),
            extra={
                "broadcast": {
                    **shown,
                    "delivered": len(found.reached),
                    "undelivered": len(found.full),
                    "unknown": len(unknown),
                }
            },
        )

    def _audience(self, named: list[str], sender: str) -> tuple[list[str], list[str]]:
        """
        Return the inboxes of an audience, and the names in it that this host does not know.

        A name is that of an agent, a person or a group, or with ``zone:`` for all agents of a zone.

        :raises Refusal: 422 where it knows none of them, or too many are meant.
        """
        found: dict[str, None] = {}
        unknown: list[str] = []
        for each in named:
            if each.startswith(ZONE):
                inboxes = [
                    agent.agent_id for agent in self._parts.directory.list_known() if agent.governance_zone == each
                ]
            else:
                try:
                    inboxes = list(self._parts.notification.inboxes(each))
                except Refusal:
                    inboxes = []
            if not inboxes:
                unknown.append(each)
            found |= dict.fromkeys(inboxes)
        if not found:
            names = ", ".join(each[:64] for each in unknown[:4])
            raise parameters.invalid(
                "audience", f"This host knows no recipient of the audience: {names}.", "Name others."
            )
        found.pop(sender, None)
        if len(found) > MOST:
            raise parameters.invalid("audience", f"audience has more than {MOST} members.", "Send to fewer recipients.")
        return list(found), unknown


def _read_audience(given: Mapping[str, Any]) -> list[str]:
    value = given.get("audience")
    listed = [value] if isinstance(value, str) else value
    if (
        not isinstance(listed, list)
        or not 0 < len(listed) <= MOST_NAMED
        or not all(isinstance(each, str) and is_opaque_id(each) for each in listed)
    ):
        raise parameters.invalid(
            "audience",
            f"audience is not a group, a zone or a list of 1 to {MOST_NAMED} names.",
            "Send a group, zone:NAME, or a list of agents, people and groups.",
        )
    return list(dict.fromkeys(listed))
