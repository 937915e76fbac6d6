"""
The one YAML decoder for bodies from outside, where the operator asks for YAML: design decision 13.

What JSON could say, in YAML's notation, and nothing else: no tags, anchors,
aliases, merge keys, directives or second documents; names are strings and
stand once. A plain scalar is null, true, false or a number where JSON writes
it so, and text where no YAML reader takes it for anything else; what some
reader takes for a date, a number to the base 60, a word for true or a float
without a finite value is refused rather than guessed at.

Everything is bounded while it is read: octets before the parser sees them,
events and depth at each event, so that no text costs more than its first
few thousand events. The parser is libyaml's: PyYAML's own needs longer for a
text of this size than a reactor may wait.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain_yaml

_PARSER: Any = vars(yaml.cyaml)["CParser"] if yaml.__with_libyaml__ else None

MAX_OCTETS = 65_536
"""Of one text; a body that is larger is sent as JSON."""

MAX_EVENTS = 10_000
"""Scalars, and beginnings and ends of mappings and sequences."""

MAX_DEPTH = jsontext.MAX_DEPTH
"""Mappings and sequences inside each other."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The size limits and the strictness of a reader."""

    octets: int = MAX_OCTETS
    events: int = MAX_EVENTS
    depth: int = MAX_DEPTH
    guessing: bool = False
    """Whether plain scalars that begin with a digit, and that every reader takes for text, are text: ``1.2.0``."""


Mark = tuple[int, int]
"""Line and column, both from 1."""

Marks = dict[int, dict[str | int, Mark]]
"""Where the names and items of each mapping and sequence stand, by its ``id``."""

_WORDS: dict[str, Any] = {"null": None, "": None, "true": True, "false": False}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_AMBIGUOUS = re.compile(
    r"""
      [~=] | <<                                             # null, value, merge
    | (?i: null | true | false | yes | no | on | off | y | n )
    | [-+]? (?: [0-9.] [0-9_.,:]* (?: [eE] [-+]? [0-9_]* )? | 0 [bBoOxX] [0-9a-fA-F_]* | \.(?i:inf) ) | \.(?i:nan)
    | [0-9]{4} - [0-9]{1,2} - [0-9]{1,2} (?: [Tt\ \t] .* )? # dates and times
    """,
    re.ASCII | re.VERBOSE | re.DOTALL,
)
"""Plain scalars that YAML 1.1, YAML 1.2 or a reader of both takes for something other than text."""

_TAKEN = re.compile(
    r"""
      0b[01_]+ | 0o[0-7]+ | 0x[0-9a-fA-F_]+
    | [0-9][0-9_]* (?: \.[0-9_]* )? (?: [eE][-+]?[0-9]+ )?  # octal in YAML 1.1: 010
    | [0-9][0-9_]* (?: :[0-5]?[0-9] )+ (?: \.[0-9_]* )?      # to the base 60
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?: (?: [Tt] | [ \t]+ ) [0-9] .* )?
    """,
    re.ASCII | re.VERBOSE | re.DOTALL,
)
"""Those that begin with a digit, and that readers do take for a number, a date or a time; ``1.2.0`` is none."""


class YAMLTextError(ValueError):
    """
    The text is not YAML as this host reads it; the message says where and why.

    :ivar mark: where; None where that is not known.
    """

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message if mark is None else f"{message} (line {mark[0]}, column {mark[1]})")
        self.reason = message
        self.mark = mark


def available() -> bool:
    """Return whether this Python's PyYAML was built with libyaml: without it, no YAML is read."""
    return _PARSER is not None


def _refuse(message: str, event: Any = None) -> NoReturn:
    raise YAMLTextError(message, _mark(getattr(event, "start_mark", None)))


def _mark(mark: Any) -> Mark | None:
    return None if mark is None else (mark.line + 1, mark.column + 1)


_STRICT = Bounds()


def decode(octets: bytes, bounds: Bounds = _STRICT, marks: Marks | None = None) -> Any:
    """
    Read one YAML text.

    :param octets: the whole text, UTF-8 without a byte order mark.
    :param marks: takes the place of each value.
    :return: dicts, lists, strings, ints within 2**53, finite floats, booleans and None.
    :raises YAMLTextError: naming what is wrong.
    """
    if len(octets) > bounds.octets:
        _refuse(f"it has more than {bounds.octets} octets")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YAMLTextError(f"it is not UTF-8 (octet {error.start})") from None
    if text.startswith("\ufeff"):
        _refuse("it begins with a byte order mark")
    try:
        return _Reading(_PARSER(text), bounds, marks).value()
    except yaml.MarkedYAMLError as error:
        raise YAMLTextError(explain_yaml(error.problem), _mark(error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise YAMLTextError(explain_yaml(str(error))) from error


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment in a text."""

    mark: Mark
    text: str
    """With its number sign."""

    alone: bool
    """Whether its line has nothing else."""


_BREAK = re.compile("\\r\\n|[\\n\\r\\x85\\u2028\\u2029]")
_COMMENT = re.compile("#[^\\n\\r\\x85\\u2028\\u2029]*")


def comments(octets: bytes) -> list[Comment]:
    """
    Return the comments of a text, in their order.

    :param octets: a text that can be read; one of JSON has none.
    """
    text = octets.decode("utf-8-sig")
    if "#" not in text:
        return []
    lines = [0, *(each.end() for each in _BREAK.finditer(text))]
    try:
        return [_comment(text, lines, found) for found in _comments(text)]
    except yaml.YAMLError:
        return []  # JSON may have escapes that are none of YAML.


def _comments(text: str) -> Iterator[re.Match[str]]:
    """Yield the comments: they are between tokens, and after the sign that begins a block of text."""
    end = 0
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        yield from _COMMENT.finditer(text, end, token.start_mark.index)
        end = token.end_mark.index
        if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">"):
            head = _BREAK.search(text, token.start_mark.index, end)
            yield from _COMMENT.finditer(text, token.start_mark.index, head.start() if head else end)
    yield from _COMMENT.finditer(text, end)


def find_continued_lines(text: str) -> frozenset[int]:
    """
    Return the lines of a YAML text at whose end a scalar continues: text that is added there would become part of it.
    """
    found: set[int] = set()
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken):
            found.update(range(token.start_mark.line + 1, token.end_mark.line + 1))
    return frozenset(found)


def _comment(text: str, lines: list[int], found: re.Match[str]) -> Comment:
    line = bisect.bisect_right(lines, found.start())
    before = text[lines[line - 1] : found.start()]
    return Comment(mark=(line, len(before) + 1), text=found[0].rstrip(), alone=not before.strip())


_SCALAR, _MAPPING, _SEQUENCE = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent
_ENDS = frozenset({yaml.MappingEndEvent, yaml.SequenceEndEvent})


class _Reading:
    """
    A pass over the events of a text; every open collection is in a list, not on Python's stack.

    The loop is one function with its state in locals: of a large document it is most of what reading takes.
    """

    def __init__(self, parser: Any, bounds: Bounds, marks: Marks | None) -> None:
        self._next = parser.get_event
        self._bounds = bounds
        self._marks = marks
        self._documents = 0

    def value(self) -> Any:
        """Return the value of the text's only document."""
        following, most, marks = self._next, self._bounds.events, self._marks
        plain: dict[str, Any] = {}  # What scalars without quotes are that stood before.
        opened: list[tuple[Any, dict[str | int, Mark] | None]] = []
        whole: Any = None
        # The innermost collection, the name in it whose value comes next, and the places of its values.
        within: Any = None
        name: str | None = None
        places: dict[str | int, Mark] | None = None
        events = 0
        while True:
            event = following()
            events += 1
            if events > most:
                _refuse(f"it has more than {most} values and names", event)
            kind = type(event)
            naming = False
            if kind is _SCALAR:
                _require_bare(event)
                value = event.value
                if event.implicit[0]:
                    if value not in plain:
                        plain[value] = _scalar(event, self._bounds.guessing)
                    value = plain[value]
                if name is None and type(within) is dict:
                    naming = True
                    _require_new(value, within, event)
            elif kind is _MAPPING or kind is _SEQUENCE:
                _require_bare(event)
                if len(opened) >= self._bounds.depth:
                    _refuse(f"it is nested more than {self._bounds.depth} deep", event)
                value = {} if kind is _MAPPING else []
                if name is None and type(within) is dict:
                    _refuse("a name is not a string", event)
            elif kind in _ENDS:
                within, places = opened.pop()
                continue
            elif self._is_end(event):
                return whole
            else:
                continue
            if marks is not None and (naming or type(within) is list):
                if places is None:
                    places = marks[id(within)] = {}
                mark = event.start_mark
                places[value if naming else len(within)] = mark.line + 1, mark.column + 1
            if naming:
                name = value
                continue
            if within is None:
                whole = value
            elif name is None:
                within.append(value)
            else:
                within[name] = value
            if kind is not _SCALAR:
                opened.append((within, places))
                within, places = value, None
            name = None

    def _is_end(self, event: Any) -> bool:
        """Return whether the text ends with an event that is not part of a value."""
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    _refuse("it has more than one document", event)
                if event.version is not None or event.tags:
                    _refuse("it has a directive", event)
            case yaml.AliasEvent():
                _refuse("it has an alias", event)
            case yaml.StreamEndEvent():
                if not self._documents:
                    _refuse("it is empty")
                return True
        return False


def _require_bare(event: Any) -> None:
    if event.anchor is not None:
        _refuse("it has an anchor", event)
    if event.tag is not None:
        _refuse("it has a tag", event)


def _require_new(name: Any, within: Any, event: Any) -> None:
    if type(name) is not str:
        _refuse("a name is not a string", event)
    if name in within:
        _refuse(f"the name {name[:64]!r} occurs twice in one mapping", event)


def _scalar(event: Any, guessing: bool) -> Any:
    """Read a scalar without quotes."""
    text = event.value
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is not None:
        try:
            return jsontext.number(text, fraction=number[1] is not None or number[2] is not None)
        except jsontext.JSONTextError as error:
            _refuse(str(error), event)
    taken = _TAKEN if guessing and text[0].isdigit() else _AMBIGUOUS
    if taken.fullmatch(text) is not None:
        _refuse(f"the plain scalar {text[:32]!r} means different things to different readers; quote it", event)
    return text
