"""
The path grammar: AGTP-API sections 5.1 to 5.5, companion section 15.

::

    path           = "/" [ segment-nz *( "/" segment-nz ) ]
    segment-nz     = 1*( unreserved / pct-encoded / sub-delims / ":" / "@" )
    template       = "/" [ ( segment-nz / parameter ) *( "/" ( segment-nz / parameter ) ) ]
    parameter      = "{" 1*( ALPHA / DIGIT / "_" ) "}"

Stricter than the drafts' ABNF in two points: empty segments and dot segments
(``.``, ``..``, also percent-encoded) are refused, because two readers resolve
them to two paths.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

_SEGMENT_CHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_PATH = re.compile(rf"(?:/{_SEGMENT_CHAR}++)++", re.ASCII)
_SEGMENT = re.compile(rf"{_SEGMENT_CHAR}++", re.ASCII)
_PARAMETER = re.compile(r"\{([A-Za-z0-9_]{1,64})\}", re.ASCII)
_URI_TEMPLATE = re.compile(r"\{[+#./;?&=,!@|][^{}]*\}|\{[^{}]*(?:\*|:[0-9]+|,[^{}]*)\}", re.ASCII)
_FOREIGN_PARAMETER = re.compile(
    r"[:*]([A-Za-z_][A-Za-z0-9_]*)\??|<(?:[a-z]+:)?([A-Za-z0-9_]+)>|\[(?:\.{3})?([A-Za-z0-9_]+)\]", re.ASCII
)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""A character that no text in an address may have."""

MAX_MEMO = 4_096
"""Good paths remembered: a host's usual traffic, in about one MiB."""

MAX_MEMO_LENGTH = 256
"""Longer paths are checked each time, so that the memo's size is bounded in octets too."""

MAX_QUERY_KEYS = 128
"""Fields in one query string; more belong in a body."""


class PathError(ValueError):
    """
    A path, template or query that breaks the grammar; the message says which rule.

    :param segment: the offending segment or field.
    """

    def __init__(self, explanation: str, segment: str = "") -> None:
        super().__init__(explanation)
        self.explanation = explanation
        self.segment = segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """A reason why a request path is answered with 460 (AGTP-API section 5.1)."""

    segment: str
    """The offending segment as sent, at most 128 characters; empty for an empty one."""

    explanation: str
    """One sentence naming the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The path of an endpoint, taken apart."""

    path: str
    segments: tuple[str | None, ...]
    """Literal segments as written; None in place of a parameter. Empty for ``/``."""

    parameters: tuple[str, ...]
    """The parameters' names, left to right."""


def decode(text: str) -> str:
    """
    Percent-decode once (RFC 3986 section 2.1); ``+`` stays as it is.

    :raises PathError: for a lone ``%``, octets that are not UTF-8, and control characters.
    """
    if "%" in text:
        octets = text.encode("utf-8")
        if octets.count(b"%") != len(_ESCAPE.findall(octets)):
            raise PathError("A percent sign is not followed by two hexadecimal digits.", text[:128])
        try:
            text = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode("ascii")), octets).decode("utf-8")
        except UnicodeDecodeError:
            raise PathError("Percent-encoded octets are not UTF-8.", text[:128]) from None
    if CONTROL.search(text):
        raise PathError("A control character is not allowed, percent-encoded or not.", text[:128])
    return text


def parse_query(query: str) -> dict[str, str]:
    """
    Return the fields of a query string, decoded; of repeated keys the last value counts (AGTP-API section 5.5).

    Values stay text: the input schema decides whether text is good enough.

    :param query: the text after the first ``?``.
    :raises PathError: naming the malformed field.
    """
    fields = [field for field in query.split("&") if field]
    if len(fields) > MAX_QUERY_KEYS:
        raise PathError(f"The query has more than {MAX_QUERY_KEYS} fields.")
    merged: dict[str, str] = {}
    for field in fields:
        name, _, value = field.partition("=")
        if not name:
            raise PathError("A query field has no name.", field[:128])
        merged[decode(name)] = decode(value)
    return merged


def bare(segment: str) -> str:
    """Return a segment in the form in which it is compared with method names: upper case, no ``-`` and ``_``."""
    return segment.replace("-", "").replace("_", "").upper()


def _segment_offence(segment: str, words: Collection[str]) -> str | None:
    """Return what is wrong with one literal segment; None where it is good."""
    if not segment:
        return "The path has an empty segment or ends with a slash."
    if _SEGMENT.fullmatch(segment) is None:
        return "A segment has a character that the path grammar does not allow."
    try:
        decoded = decode(segment)
    except PathError as error:
        return error.explanation
    if decoded in (".", ".."):
        return "Dot segments are not allowed."
    if bare(decoded) in words:
        return f"The segment is the method name {bare(decoded)}: methods stand before the path, not in it."
    return None


class PathGrammar:
    """
    Checks request paths: what the grammar gate asks on every request.

    :param words: the catalog's method names, upper case.
    """

    def __init__(self, words: Collection[str]) -> None:
        self._words = frozenset(words)
        self._suspicious = self._words | {".", ".."}
        self._good: set[str] = {"/"}

    def offence(self, path: str) -> Offence | None:
        """Return what is wrong with ``path``; None where it is good."""
        if path in self._good:
            return None
        if self._plainly_good(path):
            self._remember(path)
            return None
        found = self._first_offence(path)
        if found is None:
            self._remember(path)
        return found

    def _plainly_good(self, path: str) -> bool:
        """Return whether a path passes a quick look that good paths without escapes pass; failing it proves nothing."""
        return (
            _PATH.fullmatch(path) is not None and "%" not in path and self._suspicious.isdisjoint(bare(path).split("/"))
        )

    def _first_offence(self, path: str) -> Offence | None:
        if path[:1] != "/":
            return Offence(segment=path[:128], explanation="The path does not begin with a slash.")
        for segment in path[1:].split("/"):
            explanation = _segment_offence(segment, self._words)
            if explanation is not None:
                return Offence(segment=segment[:128], explanation=explanation)
        return None

    def _remember(self, path: str) -> None:
        if len(path) <= MAX_MEMO_LENGTH:
            if len(self._good) >= MAX_MEMO:
                # Starting over costs less than keeping an order, and a flood of paths gains nothing by it.
                self._good = {"/"}
            self._good.add(path)

    @property
    def memo_size(self) -> int:
        """Return how many good paths the memo has."""
        return len(self._good)


def template_faults(path: str, words: Collection[str] = ()) -> Iterator[str]:
    """
    Yield what is wrong with an endpoint's path (AGTP-API sections 5.2 and 5.3), one sentence each.

    :param words: the catalog's method names, which no literal segment may be.
    """
    if path == "/":
        return
    if path[:1] != "/":
        yield "the path does not begin with a slash"
        return
    operator = _URI_TEMPLATE.search(path)
    if operator is not None:
        yield f"{operator.group()[:64]!r} is an RFC 6570 expression; only the form {{name}} is supported"
        return
    seen: set[str] = set()
    for segment in path[1:].split("/"):
        parameter = _PARAMETER.fullmatch(segment)
        if parameter is None:
            yield from _literal_faults(segment, words)
        elif parameter[1] in seen:
            yield f"the parameter {parameter[1]!r} occurs twice in the path"
        else:
            seen.add(parameter[1])


def _literal_faults(segment: str, words: Collection[str]) -> Iterator[str]:
    shown = segment[:64]
    if _PARAMETER.search(segment):
        yield f"the segment {shown!r} mixes literal text with a parameter; a parameter is a whole segment"
    elif "{" in segment or "}" in segment:
        yield f"the segment {shown!r} is not a parameter of the form {{name}}"
    else:
        offence = _segment_offence(segment, words)
        if offence is not None:
            foreign = _foreign_parameter(segment)
            meant = f"; a parameter is written {{{foreign}}}" if foreign else ""
            yield f"the segment {shown!r} is refused: {offence[0].lower()}{offence[1:].rstrip('.')}{meant}"


def template_warnings(path: str) -> Iterator[str]:
    """Yield a sentence for each literal segment of an endpoint's path that is a parameter in other frameworks."""
    for segment in path[1:].split("/"):
        foreign = _foreign_parameter(segment)
        if foreign:
            yield f"the segment {segment[:64]!r} is literal text here; a parameter is written {{{foreign}}}"


def _foreign_parameter(segment: str) -> str:
    """Return the name in a segment such as ``:id`` or ``<int:id>``; empty if no framework has a parameter like it."""
    found = _FOREIGN_PARAMETER.fullmatch(segment)
    return "" if found is None else next(name for name in found.groups() if name)


@lru_cache(maxsize=16_384)
def parse_template(path: str) -> Template:
    """
    Take an endpoint's path apart. The latest are remembered: every table and recipe asks for the same ones.

    :raises PathError: with the first fault, where :func:`template_faults` finds any.
    """
    for fault in template_faults(path):
        raise PathError(fault, path[:128])
    segments: list[str | None] = []
    names: list[str] = []
    for segment in path[1:].split("/") if path != "/" else ():
        parameter = _PARAMETER.fullmatch(segment)
        segments.append(None if parameter else segment)
        if parameter:
            names.append(parameter[1])
    return Template(path=path, segments=tuple(segments), parameters=tuple(names))
