"""
The registered cards: state items, which change with the record of the call that changed them.

An item has the card's text, so that it is returned exactly as it was received, and the registry's statements about it.
The previous twenty versions are separate items, which are evicted first when space runs out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.registry.card import ACTIVE, NONE
from agtphost.registry.card_reader import authentication_of
from agtphost.registry.entry import REGISTERED, CardEntry
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.origins import origin_of
from agtphost.vocabulary.quotas import CARD, CARD_VERSION

MAX_VERSIONS = 20
"""Former versions of a card that are kept."""

SEARCHED_CHARACTERS = 300
"""Characters of an operation's description that searches read."""

Watcher = Callable[[str, CardEntry | None], object]


class RegisteredCards:
    """
    All registered cards, by id.

    It follows the durable state, as every configuration that uses it has it do: by :meth:`follow`.

    :param held: the durable state.
    """

    def __init__(self, held: StateTable) -> None:
        self._state = held
        self._entries: dict[str, CardEntry] = {}
        self._ids: list[str] = []
        self._watchers: list[Watcher] = []
        self.changes = 0
        """Counter of all changes; caches that are built from all cards compare it."""

        held.watch(CARD, self._on_change)

    def follow(self) -> None:
        """Follow the durable state under a further configuration; one that ends follows it no more."""
        self._state.follow(CARD, self._on_change)

    def watch(self, watcher: Watcher) -> None:
        """Call the watcher for every card now and after each change; its entry is None if the card is removed."""
        self._watchers.append(watcher)
        for card_id, entry in self._entries.items():
            watcher(card_id, entry)

    def _on_change(self, card_id: str, item: StateItem | None) -> None:
        self.changes += 1
        if item is None:
            if self._entries.pop(card_id, None) is not None:
                del self._ids[bisect_left(self._ids, card_id)]
            entry = None
        else:
            if card_id not in self._entries:
                insort(self._ids, card_id)
            entry = self._entries[card_id] = entry_of(card_id, item.value)
        for watcher in self._watchers:
            watcher(card_id, entry)

    # Reading

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, card_id: str) -> CardEntry | None:
        """Return the entry of one card; None if it is not registered."""
        return self._entries.get(card_id)

    def entries_after(self, card_id: str = "") -> Iterator[CardEntry]:
        """Yield all entries with a greater id, in the order of ids."""
        at = bisect_left(self._ids, f"{card_id}\0") if card_id else 0
        ids = self._ids[at:]
        # Another thread may consume the iterator while cards come and go.
        return (entry for each in ids if (entry := self._entries.get(each)) is not None)

    def ids(self) -> list[str]:
        """Return the ids of all cards, sorted."""
        return self._ids.copy()

    def item(self, card_id: str) -> tuple[dict[str, Any], int]:
        """
        Return a copy of a card's item to change, and the version that the change is based on; ``{}`` and 0 if none
        exists.
        """
        item = self._state.get(CARD, card_id)
        return ({}, 0) if item is None else (dict(item.value), item.version)

    def octets(self, card_id: str) -> bytes:
        """Return the card as it was received."""
        item = self._state.get(CARD, card_id)
        return b"" if item is None else str(item.value["card"]).encode()

    def version(self, card_id: str, number: int) -> Mapping[str, Any] | None:
        """Return a former version with its ``card``, ``number`` and ``updated``; None if it is not kept."""
        item = self._state.get(CARD_VERSION, _place(card_id, number))
        return item.value if item is not None and item.value["number"] == number else None

    # Changing

    def put(
        self, card_id: str, value: Mapping[str, Any], version: int, former: Mapping[str, Any] | None
    ) -> tuple[Change, ...]:
        """
        Return the changes that store ``value`` as a card's item.

        :param version: version of the item that this is based on; 0 if there is none.
        :param former: the item to keep as the previous version; None if the card itself does not change.
        """
        owner = str(value["owner"])
        changes = [Change(kind=CARD, key=card_id, value=value, owner=owner, expected=version)]
        if former is not None:
            number = int(former["number"])
            kept = {"card": former["card"], "number": number, "updated": former["updated"]}
            changes.append(Change(kind=CARD_VERSION, key=_place(card_id, number), value=kept, owner=owner))
        return tuple(changes)

    def removal(self, card_id: str) -> tuple[Change, ...]:
        """Return the changes that remove a card and all its versions."""
        value, version = self.item(card_id)
        owner = str(value.get("owner", ""))
        found = Change(kind=CARD, key=card_id, value=None, owner=owner, expected=version)
        places = (_place(card_id, slot) for slot in range(MAX_VERSIONS))
        kept = [place for place in places if self._state.get(CARD_VERSION, place) is not None]
        return (found, *(Change(kind=CARD_VERSION, key=place, value=None, owner=owner) for place in kept))


def _place(card_id: str, number: int) -> str:
    """Return the key of a former version; it reuses the slot of the version :data:`MAX_VERSIONS` before it."""
    return f"{number % MAX_VERSIONS} {card_id}"


def _called_urls(document: Mapping[str, Any]) -> tuple[str, ...]:
    """
    Return one URL of each origin that calls of a card go to: lists check the rights to each origin, for every card.
    """
    endpoint = str(document["endpoint"])
    urls = [each.get("endpoint") or endpoint for each in document.get("operations") or ()]
    return tuple({origin_of(url): url for url in reversed(urls)}.values()) or (endpoint,)


def entry_of(card_id: str, value: Mapping[str, Any]) -> CardEntry:
    """Return the entry of a stored card, which was checked strictly before it was stored."""
    octets = str(value["card"]).encode()
    document = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    pending = value.get("pending")
    provider = document.get("provider") or ""
    if isinstance(provider, dict):
        provider = str(provider.get("name", provider.get("organization", "")))
    return CardEntry(
        id=card_id,
        kind=REGISTERED,
        name=document["name"],
        description=document["description"],
        capabilities=tuple(document["capabilities"]),
        tags=tuple(document.get("tags") or ()),
        languages=tuple(document.get("supported_languages") or ()),
        provider=provider,
        authentication=authentication_of(document["authentication"]) or NONE,
        endpoint=document["endpoint"],
        digest=sha256(octets).hexdigest(),
        number=int(value["number"]),
        updated=float(value["updated"]),
        status=str(value.get("status", ACTIVE)),
        successor=str(value.get("successor", "")),
        source=str(value["source"]),
        owner=str(value["owner"]),
        public=value.get("public") is True and (not value["owner"] or bool(value.get("public_by"))),
        public_requested=bool(value.get("public_requested")),
        called_urls=_called_urls(document),
        lifetime=value.get("lifetime"),
        lost_since=value.get("lost_since"),
        pending=pending["digest"] if pending else "",
        signature=str(value.get("signature", "none")),
        certification=document.get("certification"),
        operations=tuple(
            (each["name"], each.get("description", "")[:SEARCHED_CHARACTERS])
            for each in document.get("operations") or ()
        ),
    )
