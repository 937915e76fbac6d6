"""
The texts of approved definitions: what a tool, a card or a manifest said of itself when it was approved.

A pin is a digest, and a digest shows no difference. So the text that it was made of is kept beside it, as a state item
of its own: it can be lost for want of room, and the pin cannot. A text counts only where its SHA-256 is the approved
digest; an older store, a configured digest whose definition was never seen, and one that is too long have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable

KIND = "upstream-definition"
"""Of state items; the key is the protocol, the upstream and the name, on a line each."""

LONGEST = 64 << 10
"""Octets of a text that is kept."""

MOST_OF_ONE = 1 << 20
"""Octets of the texts of one upstream that are kept: one that makes up new definitions all day fills no store."""


class Definitions:
    """
    Those of one upstream.

    :param protocol: ``mcp``, ``a2a`` or ``acp``.
    :param held: None: none are kept.
    """

    def __init__(self, protocol: str, upstream: str, held: StateTable | None) -> None:
        self._upstream = f"{protocol}\n{upstream}"
        self._held = held

    def text(self, name: str, digest: str) -> str | None:
        """The canonical JSON whose SHA-256 is ``digest``; None where it is not at hand."""
        item = None if self._held is None else self._held.get(KIND, f"{self._upstream}\n{name}")
        if item is None or item.brief["sha256"] != digest:
            return None
        return str(item.value["text"])

    def missing(self, approved: Mapping[str, str], text: Callable[[str], bytes]) -> Iterator[Change]:
        """
        What keeps those that are not kept yet, as far as there is room.

        :param approved: digests by name.
        :param text: the canonical JSON of a name, whose digest that is; asked for where it is needed.
        """
        if self._held is None:
            return
        known = {item.key.rpartition("\n")[2]: item for item in self._held.by(KIND, "upstream", self._upstream)}
        new = [name for name, digest in approved.items() if name not in known or known[name].brief["sha256"] != digest]
        room = MOST_OF_ONE - sum(item.octets for name, item in known.items() if name not in new) if new else 0
        for name in new:
            octets = text(name)
            if len(octets) > LONGEST:
                continue
            room -= len(octets)
            if room < 0:
                return
            value = {"upstream": self._upstream, "sha256": approved[name], "text": octets.decode()}
            yield Change(kind=KIND, key=f"{self._upstream}\n{name}", value=value)

    def shown(self, name: str, approved: str, present: bytes | None) -> dict[str, Any]:
        """
        Both definitions, as overseers see them.

        :param approved: the approved digest; empty where none is.
        :param present: canonical JSON of what the upstream says now; None where that is not known.
        """
        both: dict[str, Any] = {"approved": None, "present": None}
        if approved:
            both["approved"] = {"sha256": approved}
            kept = self.text(name, approved)
            if kept is None and present is not None and sha256(present).hexdigest() == approved:
                kept = present.decode()
            if kept is None:
                both["approved"]["unknown"] = "The host kept the digest of this definition, and not its text."
            else:
                both["approved"]["definition"] = kept
        if present is not None:
            both["present"] = {"sha256": sha256(present).hexdigest(), "definition": present.decode()}
        return {**both, "off": present is not None and both["present"]["sha256"] != approved}
