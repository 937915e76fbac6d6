"""A check of whether a grant names something that exists here, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from agtphost.contract.binding import Binding
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.rights import CARRIER, UPSTREAMS, GrantSet, at_place, format_grant, is_free, names_of
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.grants import ANY, is_grant, method_of, upstream_of
from agtphost.vocabulary.scopes import missing

MOST_SUGGESTED = 3

UNLISTED = ("resource:", "prompt:")
"""Parts of an MCP server that no list contains."""


CARD = "/cards/{id}"
CARDS = "EXECUTE /cards/"
"""The beginning of a grant to call the agent of a registered card; the card's id follows."""


class NotGrantable(ValueError):
    """
    A grant names nothing that exists here; the message says why.

    :param close: similar names.
    """

    def __init__(self, message: str, close: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.close = tuple(close)


class NotOffered(NotGrantable):
    """A grant names a tool that its server does not have at present."""


class Carries(Protocol):
    """The part of an adapter that is used: see :class:`agtphost.iagtp.IPayloadAdapter`."""

    def tools(self) -> Iterable[Binding]:
        """Return every tool that can be called now."""

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        """Return its upstreams."""


def _is_plain_action(binding: Binding) -> bool:
    """Return whether a tool is of no server: a plugin's, which a grant names by its action."""
    return not any(member in binding.extra for member in UPSTREAMS)


class Grantable:
    """
    Checker of grants against what can be called.

    :param bindings: returns the host's own and the operator's bindings; called for every question.
    :param adapters: adapters whose tools can be granted.
    """

    def __init__(self, bindings: Callable[[], Iterable[Binding]], adapters: Sequence[Any]) -> None:
        self._bindings = bindings
        self._adapters: Sequence[Carries] = adapters

    def names(self) -> list[str]:
        """Return everything that a grant can name individually, sorted."""
        return sorted({format_grant(each) for each in self._everything() if not is_free(each)})

    def find(self, texts: Iterable[str]) -> list[Binding]:
        """Return everything that one of the texts names and that needs a grant, with all that it calls in turn."""
        named = GrantSet("", frozenset(texts))
        everything = list(self._everything())
        found: dict[int, Binding] = {}
        waiting = [each for each in everything if not is_free(each) and named.names(names_of(each))]
        places: dict[tuple[str, str], Binding] = {}
        while waiting:
            each = waiting.pop()
            if id(each) in found:
                continue
            found[id(each)] = each
            waiting.extend(each.parts)
            recipe = getattr(each.handler, "recipe", None)
            if isinstance(recipe, Recipe):
                places = places or {(other.method, other.path): other for other in everything}
                steps = (places.get((step.method, step.path)) for step in recipe.steps)
                waiting.extend(step for step in steps if step is not None)
        return list(found.values())

    def callable_with(
        self, scopes: Collection[str], grants: GrantSet | None, assurance: Assurance = Assurance.CERTIFICATE
    ) -> list[str]:
        """
        Return what an agent may call, as grants name it, sorted; what needs no grant is left out.

        :param scopes: the agent's scopes.
        :param grants: its grants, if it is limited.
        :param assurance: how surely it is known.
        """
        return sorted(
            {
                format_grant(each)
                for each in self._everything()
                if not is_free(each)
                and each.min_assurance <= assurance
                and not missing(scopes, each.required_scopes)
                and (grants is None or grants.allows(each))
            }
        )

    def find_unlisted(self) -> list[str]:
        """Return the servers that have not listed their tools yet, sorted."""
        listed = {each.extra.get(member) for each in self._tools() for member in UPSTREAMS}
        known = {
            str(entry["name"])
            for adapter in self._adapters
            if not any(map(_is_plain_action, adapter.tools()))
            for entry in adapter.hosted_protocols()
        }
        return sorted(known - listed)

    def asked_scopes(self) -> set[str]:
        """Return every scope that something here asks for."""
        return {scope for each in self._everything() for scope in each.required_scopes}

    def _everything(self) -> Iterable[Binding]:
        return (*self._bindings(), *self._tools())

    def remark(self, text: str, contracts: Iterable[tuple[str, str]] = ()) -> str:
        """
        Compare a grant with what can be called.

        :param contracts: methods and paths that its agent negotiated.
        :return: a remark on a grant that cannot be compared yet; otherwise empty.
        :raises NotGrantable: it names nothing that exists.
        """
        if not is_grant(text):
            raise NotGrantable(f"{text[:100]!r} is not in the form of a grant", self._close(text))
        named = upstream_of(text)
        if named is not None:
            return self._upstream(text, *named)
        narrowing = GrantSet("", frozenset({text}))
        everything = list(self._bindings())
        if text.startswith(CARDS) and any(each.path == CARD for each in everything):
            # A card that registers later can be granted as well.
            return ""
        method = method_of(text)
        if method is not None and any(each.method == method and is_free(each) for each in everything):
            free = [each.path for each in everything if each.method == method and not is_free(each)]
            if not free:
                raise NotGrantable(f"{text} needs no grant: every agent may call it, and gets only what it may see")
        if text == ANY or any(not is_free(each) and narrowing.allows(each) for each in everything):
            return ""
        if any(narrowing.names(at_place(*place)) for place in contracts):
            return ""
        if any(narrowing.names(names_of(each)) for each in self._tools()):
            return ""
        if text.startswith("EXECUTE ") and " /" not in text:
            return f"{text}: whether this action exists is known when it is called"
        raise NotGrantable(f"this host has nothing named {text}", self._close(text))

    def _upstream(self, text: str, upstream: str, part: str) -> str:
        theirs = [each for each in self._tools() if upstream in (each.extra.get(member) for member in UPSTREAMS)]
        actions = [] if theirs else self._plain_actions(text)
        if actions:
            raise NotOffered(f"{text} is the tool of a plugin, which a grant names by its action", actions)
        known = {str(entry["name"]) for adapter in self._adapters for entry in adapter.hosted_protocols()}
        if upstream not in known:
            raise NotGrantable(f"this host has no server named {upstream}", self._close(text))
        if part == ANY or part.startswith(UNLISTED):
            return ""
        if not theirs:
            return f"{text}: {upstream} has not listed its tools yet"
        if any(GrantSet("", frozenset({text})).allows(each) for each in theirs):
            return ""
        raise NotOffered(f"the server {upstream} has nothing named {part}", self._close(text))

    def _plain_actions(self, text: str) -> list[str]:
        """Return the grants of tools of plugins that a text names as lists do."""
        meant = GrantSet("", frozenset({f"{CARRIER} {text}"}))
        return sorted(format_grant(each) for each in self._tools() if meant.names(names_of(each)))

    def _tools(self) -> Iterable[Binding]:
        return (tool for adapter in self._adapters for tool in adapter.tools())

    def _close(self, text: str) -> list[str]:
        names = self.names()
        lower = {name.lower(): name for name in names}
        near = difflib.get_close_matches(text.lower().removesuffix(ANY), list(lower), MOST_SUGGESTED, 0.6)
        bare = [name for name in names if name.partition(".")[2] == text]
        return list(dict.fromkeys([*bare, *(lower[name] for name in near)]))[:MOST_SUGGESTED]
