"""What a grant can name here: whether a text names anything, and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from agtphost.contract.binding import Binding
from agtphost.contract.rights import UPSTREAMS, Narrowing, at_place, is_free, told
from agtphost.vocabulary.grants import ANY, is_grant, method_of, upstream_of

MOST_SUGGESTED = 3

UNLISTED = ("resource:", "prompt:")
"""Parts of an MCP server that no list here has."""


CARD = "/cards/{id}"
CARDS = "EXECUTE /cards/"
"""With a card's id: calling the agent of a card that registered."""


class NotGrantable(ValueError):
    """
    A text that names nothing here; the message says why.

    :param close: what was perhaps meant.
    """

    def __init__(self, message: str, close: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.close = tuple(close)


class Carries(Protocol):
    """What is asked of an adapter: see :class:`agtphost.iagtp.IPayloadAdapter`."""

    def tools(self) -> Iterable[Binding]:
        """Every tool that can be called now."""

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        """Its upstreams."""


class Grantable:
    """
    Compares grants with what can be called.

    :param bindings: the host's own and the operator's; read at every question.
    :param adapters: whose tools may be granted.
    """

    def __init__(self, bindings: Callable[[], Iterable[Binding]], adapters: Sequence[Any]) -> None:
        self._bindings = bindings
        self._adapters: Sequence[Carries] = adapters

    def names(self) -> list[str]:
        """Everything that a grant can name one by one, sorted."""
        return sorted({told(each) for each in (*self._bindings(), *self._tools()) if not is_free(each)})

    def remark(self, text: str, contracts: Iterable[tuple[str, str]] = ()) -> str:
        """
        Compare a grant.

        :param contracts: methods and paths that its agent negotiated.
        :return: what to say of one that cannot be compared yet; empty where there is nothing to say.
        :raises NotGrantable: it names nothing.
        """
        if not is_grant(text):
            raise NotGrantable(f"there is no grant of the form {text[:100]!r}", self._close(text))
        named = upstream_of(text)
        if named is not None:
            return self._upstream(text, *named)
        narrowing = Narrowing("", frozenset({text}))
        everything = list(self._bindings())
        if text.startswith(CARDS) and any(each.path == CARD for each in everything):
            # Which cards there are changes with every call: that of one that comes later may be granted too.
            return ""
        method = method_of(text)
        if method is not None and any(each.method == method and is_free(each) for each in everything):
            free = [each.path for each in everything if each.method == method and not is_free(each)]
            if not free:
                raise NotGrantable(f"{text} needs no grant: every agent may call it, and is told what it may see")
        if text == ANY or any(not is_free(each) and narrowing.allows(each) for each in everything):
            return ""
        if any(narrowing.names(at_place(*place)) for place in contracts):
            return ""
        if text.startswith("EXECUTE ") and " /" not in text:
            return f"{text}: whether there is such an action shows when it is called"
        raise NotGrantable(f"nothing here is called {text}", self._close(text))

    def _upstream(self, text: str, upstream: str, part: str) -> str:
        known = {str(entry["name"]) for adapter in self._adapters for entry in adapter.hosted_protocols()}
        if upstream not in known:
            raise NotGrantable(f"no server behind this host is named {upstream}", self._close(text))
        if part == ANY or part.startswith(UNLISTED):
            return ""
        theirs = [each for each in self._tools() if upstream in (each.extra.get(member) for member in UPSTREAMS)]
        if not theirs:
            return f"{text}: {upstream} has not said yet what it has"
        if any(Narrowing("", frozenset({text})).allows(each) for each in theirs):
            return ""
        raise NotGrantable(f"nothing that {upstream} has is called {part}", self._close(text))

    def _tools(self) -> Iterable[Binding]:
        return (tool for adapter in self._adapters for tool in adapter.tools())

    def _close(self, text: str) -> list[str]:
        names = self.names()
        lower = {name.lower(): name for name in names}
        near = difflib.get_close_matches(text.lower().removesuffix(ANY), list(lower), MOST_SUGGESTED, 0.6)
        bare = [name for name in names if name.partition(".")[2] == text]
        return list(dict.fromkeys([*bare, *(lower[name] for name in near)]))[:MOST_SUGGESTED]
