"""
What requests of one HTTP client have in common, so that gates need not look at everything again.

On an AGTP connection the wire finds out which requests repeat a head (:mod:`agtphost.wire.heads`). The heads that
fronts make for their clients repeat as well, on every connection of a client: :mod:`agtphost.dispatch.gate_cache`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from agtphost.http.clients import HttpClient
from agtphost.vocabulary.lru import keep
from agtphost.wire.headers import Common
from agtphost.wire.heads import MOST_OCTETS

Part = str | bytes | tuple[str, str]
"""A part of a head: a method, a line, or a field."""


class ClientHeads:
    """
    The heads of clients that have come more than once.

    :param most: heads that are remembered; the one that came first is forgotten first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._commons: OrderedDict[Hashable, Common | None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many heads are remembered."""
        return len(self._commons)

    def find_common(self, client: HttpClient, head: tuple[Part, ...] = ()) -> Common | None:
        """
        Return the object under which gates keep what they found of a head, from its second request on.

        Learning costs more than it saves a client that comes once, or rarely among many. What comes with a provider's
        token is never kept, since tokens expire. Nor is a long head, as on an AGTP connection: clients choose their
        heads, and all that is remembered shall not hold much.

        :param head: what a client's heads may differ in, but for identifiers of single calls; empty: nothing.
        """
        for name, _ in client.fields:
            if name == "Authorization":
                return None
        place = client.key, client.address, client.fields, head
        common = self._commons.get(place)
        if common is None:
            if _measure(head) > MOST_OCTETS:
                return None
            common = Common() if place in self._commons else None
            keep(self._commons, place, common, self._most)
        return common


def _measure(head: tuple[Part, ...]) -> int:
    """Return how many characters a head has."""
    return sum(sum(map(len, part)) if isinstance(part, tuple) else len(part) for part in head)
