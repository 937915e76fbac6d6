"""QUERY of ``/cards`` and ``/cards/{id}``: lists of cards, and single cards as they were received."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from hashlib import sha256
from itertools import islice
from typing import Any

from zope.interface import implementer

from agtphost.errors import not_found
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.registry.card import MEDIA_TYPE
from agtphost.registry.catalogue import Cards, Listed
from agtphost.registry.filters import read_filters
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

MOST = 200
DEFAULT = 50
"""Cards of one answer."""

_OWN = ("limit", "cursor", "public", "count")


@implementer(IBuiltInHandler)
class ShowCards:
    """
    Handler of QUERY.

    :param offload: calls a slow function in another thread.
    """

    kind = "built_in"

    def __init__(self, offload: Callable[..., Awaitable[Any]]) -> None:
        self._offload = offload
        self.cards: Cards = None  # type: ignore[assignment]

    def handle(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        """
        Answer with a list of cards, or one card.

        :raises agtphost.errors.Refusal: 404 if a card does not exist for the caller, 422 if a parameter is invalid.
        """
        card_id = context.path_parameters.get("id")
        return self._list(context) if card_id is None else self._one(context, card_id)

    async def _list(self, context: BuiltInContext) -> Answer:
        given = context.input
        filters = read_filters(given, known=_OWN)
        limit = parameters.count(given, "limit", DEFAULT, MOST)
        public = given.get("public") in (True, "true")
        listed = self.cards.all(context, _decode_cursor(given.get("cursor")))

        def wanted(each: Listed) -> bool:
            return (each.entry.public or not public) and filters.admits(each)

        # Take one more than the limit, to know whether there are more.
        found = await self._offload(lambda: list(islice(filter(wanted, listed), limit + 1)))
        more, found = len(found) > limit, found[:limit]
        result: dict[str, Any] = {"agents": [each.to_json() for each in found], "count": len(found)}
        if more:
            result["next_cursor"] = cursor_of(found[-1].entry.id)
        if self.cards.leases.frozen:
            result["states_stand_still"] = True
        return Answer(result=result)

    def _one(self, context: BuiltInContext, card_id: str) -> Answer:
        listed = self.cards.get(context, card_id)
        octets = self.cards.octets(listed)
        number = parameters.count(context.input, "version", listed.entry.number, 1 << 31)
        former: dict[str, Any] = {}
        if number != listed.entry.number:
            kept = self.cards.registered.version(card_id, number) if listed.generated is None else None
            if kept is None:
                raise not_found(
                    Reason.CARD_UNKNOWN, "This host does not keep that version of the card.", parameter="version"
                )
            octets, former = str(kept["card"]).encode(), {"version": number, "current_version": listed.entry.number}
        if parameters.choice(context.input, "form", ("card", "entry"), "card") == "entry":
            return Answer(result={**listed.to_json(), **former, "card": jsontext.decode(octets)})
        return Answer(body=octets, content_type=MEDIA_TYPE, headers=_fields(listed, octets, former))


def _fields(listed: Listed, octets: bytes, former: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    fields = listed.entry.headers(listed.state)
    if not former:
        return fields
    other = {"ETag": f'"{sha256(octets).hexdigest()}"', "Card-Version": str(former["version"])}
    return tuple((name, other.get(name, value)) for name, value in fields if name != "Last-Modified")


def cursor_of(card_id: str) -> str:
    """Return the cursor of the next page of a list."""
    return base64.urlsafe_b64encode(card_id.encode()).decode("ascii").rstrip("=")


def _decode_cursor(cursor: Any) -> str:
    if cursor is None:
        return ""
    try:
        if not isinstance(cursor, str) or not cursor or len(cursor) > 400:
            raise ValueError
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise parameters.invalid(
            "cursor", "cursor is not one that a list returned.", "Send the value of next_cursor unchanged."
        ) from None
