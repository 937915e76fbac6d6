"""
SEND: out of AGTP, through what the operator has configured (methods v01 section 7.4).

Each channel is delivered by an endpoint of this host, which is called as the sender and through every gate. No address
that is called comes from a caller: webhooks are named, and their addresses stand in the endpoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.config.send_targets import SendSection
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.jsonslices import weight
from agtphost.vocabulary.reasons import Reason

CHANNELS = ("email", "webhook", "sms", "push")
CONTENT = 65_536
ADDRESS = 320
"""Characters of an address: the longest of an e-mail."""

CONFIRMATION = 4_096
"""Octets of what a channel says of its delivery that are passed on."""


@implementer(IBuiltInHandler)
class Sending:
    """The handler of SEND."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._channels: Sequence[SendSection] = parts.config.methods.send
        self._now = parts.now

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the SEND call.

        :raises Refusal: 404 for whom the channel does not reach, 422, 503 where nothing provides it, and its own.
        """
        owner_of(context)
        given = context.input
        channel = parameters.choice(given, "channel", CHANNELS)
        content = parameters.read_json(given, "content", CONTENT)
        if content is None:
            raise parameters.invalid("content", "The parameter content is missing.", "Send content.", missing=True)
        recipient = _address(parameters.require_text(given, "recipient"), channel)
        template = parameters.text(given, "template_id")
        confirmation = await self.deliver(context, channel, recipient, content, template)
        shown = {
            "message_id": f"msg-{secrets.token_hex(16)}",
            "channel": channel,
            "recipient": recipient,
            "sent_at": times.stamp(self._now()),
        }
        return Answer(
            result={**shown, "confirmation": confirmation},
            extra={"sent": {**shown, **({} if template is None else {"template_id": template})}},
        )

    async def deliver(
        self, context: BuiltInContext, channel: str, recipient: str, content: Any, template: str | None = None
    ) -> Mapping[str, Any]:
        """
        Deliver one message over one channel.

        :return: what the channel says of it.
        :raises Refusal: 404, 503, and what the channel itself refuses for.
        """
        offered = [each for each in self._channels if each.channel == channel]
        if not offered:
            raise Refusal(
                Reason.PROVIDER_MISSING,
                f"This host cannot deliver to the channel {channel} here.",
                remedy="The operator has to name an endpoint for it: [[methods.send]].",
                details={"channel": channel},
            )
        for each in offered:
            if recipient in each.recipients or (not each.recipients and channel != "webhook"):
                break
        else:
            raise Refusal(
                Reason.RECIPIENT_UNKNOWN,
                f"The channel {channel} does not reach that recipient.",
                remedy="The operator has to list its recipients: [[methods.send]] recipients.",
                details={"parameter": "recipient"},
            )
        message = {"recipient": recipient, "channel": channel, "content": content, "template_id": template or ""}
        method, _, path = each.through.partition(" ")
        answered = await context.invoke(method, path, message)
        short = weight(answered, CONFIRMATION) <= CONFIRMATION and len(jsontext.encode(answered)) <= CONFIRMATION
        return answered if short else {"omitted": "longer than is passed on"}

    async def to_all(
        self, context: BuiltInContext, channel: str, recipients: Sequence[str], content: Any
    ) -> tuple[int, list[str]]:
        """
        Send one message to each recipient; return the number of successes and the failed recipients.

        :raises Refusal: 503 where nothing provides the channel.
        """
        count, failed = 0, []
        for recipient in recipients:
            try:
                await self.deliver(context, channel, _address(recipient, channel, "audience"), content)
                count += 1
            except Refusal as refusal:
                if refusal.reason == Reason.PROVIDER_MISSING:
                    raise
                failed.append(recipient)
        return count, failed


def _address(text: str, channel: str, parameter: str = "recipient") -> str:
    """
    Return an address in the form that the channel uses; whether it exists is for the provider to judge.

    :raises Refusal: 422 for one that is none, and for what a caller would have called.
    """
    if len(text) > ADDRESS or not text.isprintable() or (channel == "webhook" and "://" in text):
        raise parameters.invalid(
            parameter,
            f"{parameter} is not an address of the channel {channel}.",
            "Send the name of a webhook that the operator has configured."
            if channel == "webhook"
            else "Send an address in one line.",
        )
    if channel == "email" and ("@" not in text or any(each in text for each in " ,;<>")):
        raise parameters.invalid(
            parameter, f"{parameter} is not an e-mail address.", "Send one address, such as a@b.test."
        )
    return text
