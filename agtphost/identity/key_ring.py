"""
The keys of one host over time: which are trusted, their order, and until when each counts.

A verifier starts with a known key, and follows the statement of each key about its successor
(:mod:`agtphost.identity.key_history`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agtphost.identity.key_history import Succession, moment_of, read_statement
from agtphost.identity.keys import KeyFormatError, VerifyingKey

MOST_LINKS = 256
"""Rotations that a reader follows: a key a month for twenty years."""


class KeyRing(dict[str, VerifyingKey]):
    """
    The keys of one host by ``kid``, and until when each was in use.

    It starts with keys that are trusted, and grows by statements: a key that
    a trusted one names as its successor is trusted as well. So the first key
    of a host is enough to verify all that it ever signed.
    """

    def __init__(self, keys: Iterable[VerifyingKey] = ()) -> None:
        super().__init__((key.kid, key) for key in keys)
        self.until: dict[str, str] = {}
        """By ``kid``, RFC 3339: after that, what the key signed does not count. Keys in use are not in it."""

        self.links: dict[str, Succession] = {}
        """The successor of each key that has one, by the ``kid`` of the earlier key, in the order learned."""

    @classmethod
    def copy_of(cls, keys: Mapping[str, VerifyingKey]) -> KeyRing:
        """
        Copy keys, with their links and ends where they are a ring; the copy can grow without changing the original.
        """
        ring = cls()
        ring.update(keys)
        if isinstance(keys, KeyRing):
            ring.until.update(keys.until)
            ring.links.update(keys.links)
        return ring

    def follow(self, link: Succession) -> bool:
        """
        Trust the key that follows a trusted one, and end the use of the earlier.

        The same succession may be stated again, by a host that ended before it
        had changed its key: the later statement counts then.

        :return: whether the earlier key is trusted; otherwise the statement has no effect on this ring.
        :raises KeyFormatError: another key follows it already, or the key that follows was followed by it.
        """
        old = link.old.kid
        if self.get(old) != link.old:
            return False
        before = self.links.get(old)
        if before is not None and before.new != link.new:
            raise KeyFormatError(f"two keys follow {old}: {before.new.kid} and {link.new.kid}")
        if self.precedes(link.new.kid, old):
            raise KeyFormatError(f"{link.new.kid} was followed by {old}, and cannot follow it")
        known = moment_of(self.until.get(old)) if before is not None else None
        moment = moment_of(link.rotated_at)
        if moment is None:
            raise KeyFormatError("the end of the key's use is not a time")
        self[link.new.kid] = link.new
        if known is None or known < moment:
            self.until[old], self.links[old] = link.rotated_at, link
        return True

    @property
    def in_use(self) -> list[VerifyingKey]:
        """The keys whose use has not been ended."""
        return [key for kid, key in self.items() if kid not in self.until]

    def precedes(self, earlier: str, later: str) -> bool:
        """Return whether one key was in use before another, by the statements that the ring has."""
        link = self.links.get(earlier)
        while link is not None:
            if link.new.kid == later:
                return True
            link = self.links.get(link.new.kid)
        return False

    def has_ended(self, kid: str, moment: object) -> bool:
        """Return whether a key's use had ended at a time (RFC 3339); an invalid time counts as too late."""
        until = self.until.get(kid)
        if until is None:
            return False
        end, signed = moment_of(until), moment_of(moment)
        return end is None or signed is None or signed > end


def read_statements(statements: object) -> list[Succession]:
    """
    Read statements from an untrusted source, the oldest first.

    :raises KeyFormatError: one is not a valid statement.
    """
    if not isinstance(statements, list) or len(statements) > MOST_LINKS:
        raise KeyFormatError(f"the links of keys are not a list of at most {MOST_LINKS} statements")
    return [read_statement(statement) for statement in statements]


def follow_statements(keys: Iterable[VerifyingKey], statements: object) -> KeyRing:
    """
    Return trusted keys with all keys that follow them.

    :param statements: as for :func:`read_statements`; those of untrusted keys have no effect.
    :raises KeyFormatError: one is not a valid statement, or contradicts another.
    """
    ring = KeyRing(keys)
    for link in read_statements(statements):
        ring.follow(link)
    return ring


def known_keys(current: VerifyingKey, history: Iterable[Succession]) -> KeyRing:
    """
    Return the keys that records may be signed with, by ``kid``, and until when.

    :param history: the newest first, as :func:`~agtphost.identity.key_history.read_history` gives it.
    """
    links = tuple(history)
    ring = KeyRing((current, *(link.old for link in links)))
    for link in reversed(links):
        ring.follow(link)
    return ring
