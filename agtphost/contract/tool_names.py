"""
The form of an endpoint as an MCP tool: AGIS v01 appendix C, rules (a) to (d).

These rules are implemented only here: the conversion of documents and the bridge use the same functions. ``output``,
``errors``, ``confidence_guidance`` and ``state_transition`` have no counterpart in a tool, so they are not arguments
here, and cannot make anything fail (rule d).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 64
"""Characters of a name that every MCP client accepts."""

MAX_HINTS = 32
"""Phrases of one parameter."""

LONGEST_HINT = 200
"""Characters of one phrase."""

_DECLARED = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*", re.ASCII)
_FOREIGN = re.compile(r"[^a-z0-9_-]", re.ASCII)
_DIGEST = 10


def mcp_tool_name(method: str, path: str, declared: str | None = None) -> str:
    """
    Return the name of an endpoint's tool (rule a).

    :param method: such as ``BOOK``.
    :param path: the template, such as ``/reservation/{id}``.
    :param declared: ``mcp_tool_name`` of the semantic block, which is used unchanged.
    :return: ``book_reservation``; ``book`` for the path ``/``. At most 64 characters of ``[a-z0-9_-]`` unless declared
        otherwise.
    """
    if declared is not None:
        return declared
    return _join_words(method, _segments(path)[:1], f"{method} {path}")


def tool_description(intent: str, hints: Mapping[str, Sequence[str]] | None = None) -> str:
    """
    Return the description of an endpoint's tool (rule b).

    :param hints: ``parameter_hints``: phrases by parameter.
    :return: the intent; with hints, ``INTENT. Hints: size = ['for N people']; when = ['next Tuesday']``.
    """
    if not hints:
        return intent
    listed = "; ".join(f"{name} = [{', '.join(map(_quote, phrases))}]" for name, phrases in hints.items())
    stop = "" if intent.rstrip().endswith((".", "!", "?", "。")) else "."
    return f"{intent.rstrip()}{stop} Hints: {listed}"


def tool_input_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the ``inputSchema`` of an endpoint's tool (rule c): the input schema itself.

    MCP requires ``type: object``, and the appendix requires the ``required`` array, so both are added if the schema
    leaves them out.
    """
    shown = {"type": "object", **schema}
    shown.setdefault("properties", {})
    shown.setdefault("required", [])
    return shown


def is_tool_name(value: object) -> bool:
    """
    Return whether a value is allowed as ``mcp_tool_name`` (AGIS v01 section 6).

    It has lower-case words with one underscore between them. Two underscores mark a server's own tools,
    ``files__read``.
    """
    return isinstance(value, str) and len(value) <= LONGEST and _DECLARED.fullmatch(value) is not None


def hint_faults(value: object) -> Iterator[str]:
    """Yield the faults of ``parameter_hints``, as sentences."""
    if not isinstance(value, Mapping):
        yield "semantic.parameter_hints must be a table from parameters to lists of phrases"
        return
    for name, phrases in value.items():
        sound = isinstance(phrases, (list, tuple)) and 0 < len(phrases) <= MAX_HINTS
        if not sound or not all(map(_is_phrase, phrases)):
            text = f"must be a list of 1 to {MAX_HINTS} phrases of up to {LONGEST_HINT} characters"
            yield f"semantic.parameter_hints.{str(name)[:64]} {text}"


def _is_phrase(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= LONGEST_HINT and value.isprintable()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEndpoint:
    """The members of an endpoint that its tool's name is made of."""

    method: str
    path: str
    declared: str | None = None

    @property
    def key(self) -> str:
        """Return ``METHOD /path``."""
        return f"{self.method} {self.path}"


def distinct_tool_names(
    endpoints: Iterable[NamedEndpoint], is_taken: Callable[[str], bool] = lambda name: False
) -> dict[str, str]:
    """
    Return names for a whole catalog, each of them unique (AGIS v01 section 5).

    A declared name stays. Others that collide get the whole path: ``fetch_order`` and ``fetch_order_id`` for ``FETCH
    /order`` and ``FETCH /order/{id}``. Names that still collide end in a digest of ``METHOD /path``. The result does
    not depend on the order of the endpoints.

    :param is_taken: returns whether something else already has a name.
    :return: names by ``METHOD /path``.
    """
    found = {endpoint.key: endpoint for endpoint in sorted(endpoints, key=lambda endpoint: endpoint.key)}
    declared = {key: each.declared for key, each in found.items() if each.declared is not None}
    settled = _unique(declared, is_taken)
    occupied = {*declared.values(), *settled.values()}

    def is_occupied(name: str) -> bool:
        return name in occupied or is_taken(name)

    names = {key: mcp_tool_name(each.method, each.path) for key, each in found.items() if key not in settled}
    meeting = _meeting(names, is_occupied)
    names = {key: _whole(found[key]) if key in meeting else name for key, name in names.items()}
    return {**settled, **_unique(names, is_occupied)}


def _meeting(names: Mapping[str, str], is_taken: Callable[[str], bool]) -> set[str]:
    """Return the keys whose name another key has too."""
    count = Counter(names.values())
    return {key for key, name in names.items() if count[name] > 1 or is_taken(name)}


def _unique(names: Mapping[str, str], is_taken: Callable[[str], bool]) -> dict[str, str]:
    meeting = _meeting(names, is_taken)
    return {key: _cut(name, key) if key in meeting else name for key, name in names.items()}


def _whole(endpoint: NamedEndpoint) -> str:
    return _join_words(endpoint.method, _segments(endpoint.path), endpoint.key)


def _segments(path: str) -> list[str]:
    return [segment for segment in path.strip("/").split("/") if segment]


def _join_words(method: str, segments: Sequence[str], key: str) -> str:
    words = [method, *(segment.strip("{}") for segment in segments)]
    name = _FOREIGN.sub("_", "_".join(words).lower())
    return name if len(name) <= LONGEST else _cut(name, key)


def _cut(name: str, key: str) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}-{digest}"


def _quote(phrase: str) -> str:
    escaped = phrase.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
