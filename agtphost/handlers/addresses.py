"""
``[notify]``: people and groups that messages and escalations can be addressed to.

A person is identified only by the key of a client certificate, not by other contents of the certificate, and not by a
name in a header, which proves nothing. Groups have people, agents and the operator as members; a member that is both a
person's and an agent's name is the person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

MARK = "notify:"
"""
The beginning of a name of ``[notify]`` where an Agent-ID could be as well: in ``recipient`` of an escalation, and in
the name of a person's inbox.
"""


def owner_of_inbox(inbox: str) -> str:
    """Return the owner of an inbox: an Agent-ID or a key as it is, and the SHA-256 of a person's marked name."""
    return sha256(inbox.encode()).hexdigest() if inbox.startswith(MARK) else inbox


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Recipients that are not agents."""

    people: Mapping[str, str] = field(default_factory=dict)
    """Names of people, with the fingerprints of the keys that they read by."""

    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of groups, with their members: people, agents, the operator."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The key fingerprints of all people."""
        return frozenset(self.people.values())

    @cached_property
    def _of_keys(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for name, key in self.people.items():
            found[key] |= {f"{MARK}{name}", *self._of_members.get(name, ())}
        return {key: frozenset(names) for key, names in found.items()}

    @cached_property
    def _of_members(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for group, members in self.groups.items():
            for member in members:
                found[member].add(f"{MARK}{group}")
        return {member: frozenset(names) for member, names in found.items()}

    def recipients_of_key(self, key: str) -> frozenset[str]:
        """Return the marked names that stand for a key: those of its person, and of the groups of that person."""
        return self._of_keys.get(key, frozenset())

    def name_of_key(self, key: str) -> str:
        """Return the name of the person that has a key, the first of several; empty for a key of no person."""
        return min((name for name, known in self.people.items() if known == key), default="")

    def inboxes_of_key(self, key: str) -> frozenset[str]:
        """
        Return the owners of the messages of the person that has a key now.

        The next agent with the name gets the messages after that.
        """
        return frozenset(owner_of_inbox(f"{MARK}{name}") for name, known in self.people.items() if known == key)

    def recipients_of_member(self, name: str) -> frozenset[str]:
        """Return the marked names of the groups with a member that is not a person: an agent, or the operator."""
        return frozenset() if name in self.people else self._of_members.get(name, frozenset())
