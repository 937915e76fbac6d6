"""``[[methods.send]]`` and ``[[methods.connect]]``: what leaves AGTP, and what may be connected."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from agtphost.config.values import Items, Line, Scope, Section, Table, form

PLACE = r"[A-Z]{3,32} /\S{0,511}"
Place = Annotated[str, form(PLACE, "holds {}, which is not a METHOD /path")]

ChannelType = Literal["stream", "webhook", "polling", "event-bus"]


class SendSection(Section):
    """An entry of ``[[methods.send]]``: a channel of SEND and BROADCAST, and what delivers it."""

    channel: Literal["email", "webhook", "sms", "push"]
    """What callers name."""

    through: Place
    """
    The endpoint of this host that delivers, as ``METHOD /path``; it gets ``recipient``, ``channel``, ``content`` and
    ``template_id``, and is called in the sender's name. Addresses of webhooks are in the endpoint, and are never the
    caller's.
    """

    recipients: Items[Line] = ()
    """
    To whom alone it delivers. Empty: to whom the caller names. Of a webhook there has to be one: a name, no address.
    """


class ConnectSection(Section):
    """An entry of ``[[methods.connect]]``: a pair that CONNECT may connect."""

    source: Line
    destination: Line

    types: Annotated[Items[ChannelType], Field(min_length=1)] = ("stream",)
    """What the connection may be; the first where the caller names none."""

    scopes: Items[Scope] = ()
    """Scopes that connecting takes, all of them."""

    most_ttl: Annotated[int, Field(ge=0)] = 0
    """Seconds that a connection lasts at the longest; 0: until it is cancelled."""

    channel: Table[str, Any] = Field(default_factory=dict)
    """What only the connecting caller learns of the channel, such as the topic to listen to."""
