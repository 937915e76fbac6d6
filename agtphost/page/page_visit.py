"""Describe one request for one view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agtphost.page.entrance import PageSession
from agtphost.page.layout import PageView
from agtphost.page.person_client import PageReply, PersonClient


@dataclass(kw_only=True)
class PageVisit:
    """A request for a view: the person, the path and the query."""

    path: str
    """The path of the request, without the query."""

    rest: str
    """The part after the view's own path: an identifier, or nothing."""

    query: Mapping[str, str]
    session: PageSession
    ask: PersonClient
    person: Mapping[str, Any] = field(default_factory=dict)
    """The answer of QUERY /page about the person."""

    operators: Collection[str] = ()
    """The names of the operators that the configuration lists."""

    read: set[str] = field(default_factory=set)
    """The names of the query that the view has asked for."""

    cut: dict[str, int] = field(default_factory=dict)
    """The names of words that were longer than the view takes, and how many characters of each it uses."""

    def query_word(self, name: str, longest: int = 256) -> str:
        """Return a word of the query, without what is beyond its longest form; empty if it is absent."""
        self.read.add(name)
        word = self.query.get(name, "").strip()
        if len(word) > longest:
            self.cut[name] = longest
        return word[:longest].strip()

    def may(self, action: str) -> bool:
        """Return whether the host lets this person perform an action; only then its buttons are drawn."""
        allowed = self.person.get("may")
        return isinstance(allowed, dict) and allowed.get(action) is True

    def query_choice(self, name: str, known: Collection[str]) -> str:
        """Return a word of the query that is one of some; empty for any other, which counts as one that is not read."""
        word = self.query_word(name)
        if word in known:
            return word
        self.read.discard(name)
        return ""

    @property
    def unread(self) -> Mapping[str, str]:
        """Return the members of the query that have a value and that the view has not asked for."""
        return {name: word for name, word in self.query.items() if word and name not in self.read}

    @property
    def sees_decisions(self) -> bool:
        """Return whether this person sees what waits for operators and registrars; viewers do not."""
        roles = self.person.get("roles")
        return isinstance(roles, list) and bool({"operator", "approver", "registrar"}.intersection(roles))

    @property
    def sees_only_addressed(self) -> bool:
        """Return whether this person sees only what is addressed to them."""
        return is_only_addressed(self.person)

    @property
    def csrf(self) -> str:
        """Return the session's token for forms."""
        return self.session.csrf


def is_only_addressed(person: Mapping[str, Any]) -> bool:
    """
    Return whether QUERY /page describes only a person of ``[notify]``.

    :param person: its answer.
    """
    return person.get("roles") == ["person"]


Draw: TypeAlias = Callable[[PageVisit], Awaitable[PageView]]

Frame: TypeAlias = Mapping[str, PageReply]
