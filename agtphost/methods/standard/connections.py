"""CONNECT: a channel between two that the operator lets be connected (methods v01 section 6.6)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.config.send_targets import ConnectSection
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.cancellation import Cancelling, cancelled_before
from agtphost.methods.standard.reservations import Reservations
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import scopes, times
from agtphost.vocabulary.quotas import CONNECTION
from agtphost.vocabulary.reasons import Reason

TYPES = ("stream", "webhook", "polling", "event-bus")
SETTINGS = 4_096
"""Octets of ``config``."""

REMEMBERED = 7 * 86_400
"""Seconds for which the tombstone of a cancelled connection is kept."""

LONGEST = 366 * 86_400


@implementer(IBuiltInHandler)
class Connecting:
    """The handler of CONNECT."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts
        self._claims = Reservations(parts.now)
        parts.held.watch(CONNECTION, self._release_claim)

    def _release_claim(self, key: str, item: StateItem | None) -> None:
        if item is not None:
            self._claims.release((item.owner, item.brief["pair"]))

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Open a connection.

        :raises Refusal: 404 for a pair that is not configured, or not for the caller; 409 where the caller has
            connected it already; 422.
        """
        owner_of(context)
        given, now = context.input, self._parts.now()
        pair = self._pair(context)
        kind = parameters.choice(given, "channel_type", TYPES, pair.types[0])
        if kind not in pair.types:
            raise parameters.invalid(
                "channel_type", "The two are not connected in that way.", f"Use {', '.join(pair.types)}."
            )
        settings = parameters.read_json(given, "config", SETTINGS) or {}
        until = _read_expiry(given, pair, now)
        name = f"{pair.source}\n{pair.destination}"
        for item in self._parts.held.items_by(CONNECTION, "pair", name):
            if item.owner == context.owner and item.brief["state"] == "open":
                raise Refusal(Reason.CONNECTED_ALREADY, details={"connection_id": item.key})
        self._claims.take((context.owner, name))
        value: dict[str, Any] = {
            "connection_id": f"con-{secrets.token_hex(16)}",
            "pair": name,
            "source": pair.source,
            "destination": pair.destination,
            "channel_type": kind,
            "config": settings,
            "state": "open",
            "opened_at": times.stamp(now),
            "ends_at": None if until is None else times.stamp(until),
        }
        change = Change(
            kind=CONNECTION,
            key=value["connection_id"],
            value=value,
            owner=context.owner,
            expires_at=None if until is None else int(until * 1000),
            expected=0,
        )
        shown = {name: value[name] for name in value if name != "pair"}
        said = {name: shown[name] for name in ("connection_id", "source", "destination", "channel_type", "ends_at")}
        return Answer(result={**shown, "channel": dict(pair.channel)}, changes=(change,), extra={"connection": said})

    def _pair(self, context: BuiltInContext) -> ConnectSection:
        """Return the configured pair. A caller without its scopes gets the refusal of an unknown pair."""
        wanted = tuple(parameters.require_text(context.input, name) for name in ("source", "destination"))
        for pair in self._parts.config.methods.connect:
            if (pair.source, pair.destination) == wanted and not scopes.missing(context.scopes, pair.scopes):
                return pair
        raise Refusal(Reason.NOTHING_TO_CONNECT)


def _read_expiry(given: Mapping[str, Any], pair: ConnectSection, now: float) -> float | None:
    ttl = given.get("ttl")
    most = pair.most_ttl or LONGEST
    if ttl is None:
        return now + pair.most_ttl if pair.most_ttl else None
    if isinstance(ttl, bool) or not isinstance(ttl, int) or not 0 < ttl <= most:
        raise parameters.invalid("ttl", f"ttl is not 1 to {most} seconds.", "Send a shorter time.")
    return now + ttl


def cancel_connection(parts: MethodServices) -> Any:
    """Return the source of CANCEL for connections of the caller."""

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        item = parts.held.get(CONNECTION, target_id)
        if item is None or not context.owner or item.owner != context.owner:
            return None
        if item.brief["state"] != "open":
            raise cancelled_before(target_id, str(item.brief["state"]))
        until = int((parts.now() + REMEMBERED) * 1000)
        change = Change(
            kind=CONNECTION,
            key=item.key,
            value={**item.value, "state": "cancelled", **said},
            owner=item.owner,
            expires_at=until,
            expected=item.version,
        )
        named = (item.value["source"], item.value["destination"])
        agents = (parts.directory.by_id(each) or parts.directory.by_name(each) for each in named)
        return Cancelling(
            kind=CONNECTION, changes=(change,), parties=[each.agent_id for each in agents if each is not None]
        )

    return source
