"""One look at one view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agtphost.page.asking import Asker, Reply
from agtphost.page.entrance import Session
from agtphost.page.layout import View


@dataclass(kw_only=True)
class Visit:
    """Who looks, at what, and with which words."""

    path: str
    """Below which the view is; without the query."""

    rest: str
    """What follows the view's own path: an identifier, or nothing."""

    query: Mapping[str, str]
    session: Session
    ask: Asker
    person: Mapping[str, Any] = field(default_factory=dict)
    """What QUERY /page said of whoever looks."""

    def word(self, name: str, longest: int = 256) -> str:
        """A word of the query; empty where it is not there."""
        return self.query.get(name, "")[:longest].strip()

    def may(self, action: str) -> bool:
        """Whether the host lets this person do something; buttons are drawn by it."""
        allowed = self.person.get("may")
        return isinstance(allowed, dict) and allowed.get(action) is True

    @property
    def decides(self) -> bool:
        """Whether what waits for operators and registrars is shown to this person; viewers see that nowhere."""
        roles = self.person.get("roles")
        return isinstance(roles, list) and bool({"operator", "registrar"}.intersection(roles))

    @property
    def only_addressed(self) -> bool:
        """Whether this person sees what is addressed to it, and nothing else of the host."""
        return is_only_addressed(self.person)

    @property
    def csrf(self) -> str:
        """For forms."""
        return self.session.csrf


def is_only_addressed(person: Mapping[str, Any]) -> bool:
    """
    Return whether QUERY /page said that somebody is a person of ``[notify]`` and nothing else.

    :param person: what it said.
    """
    return person.get("roles") == ["person"]


Draw: TypeAlias = Callable[[Visit], Awaitable[View]]

Frame: TypeAlias = Mapping[str, Reply]
