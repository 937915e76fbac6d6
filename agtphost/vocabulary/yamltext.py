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

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from agtphost.vocabulary import jsontext

_PARSER: Any = vars(yaml.cyaml)["CParser"] if yaml.__with_libyaml__ else None

MAX_OCTETS = 65_536
"""Of one text; a body that is larger is sent as JSON."""

MAX_EVENTS = 10_000
"""Scalars, and beginnings and ends of mappings and sequences."""

MAX_DEPTH = jsontext.MAX_DEPTH
"""Mappings and sequences inside each other."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How large a text may be, and how strict a reader is."""

    octets: int = MAX_OCTETS
    events: int = MAX_EVENTS
    depth: int = MAX_DEPTH
    guessing: bool = False
    """Whether plain scalars that readers disagree about, such as ``1.2.0``, are text."""


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
    """Whether this Python's PyYAML was built with libyaml: without it, no YAML is read."""
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
    :param marks: takes where everything stands.
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
        raise YAMLTextError(error.problem or "it cannot be parsed", _mark(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise YAMLTextError(f"it cannot be parsed: {error}"[:160]) from None


def comments(octets: bytes) -> int:
    """
    How many comments a text has.

    :param octets: a text that can be read; one of JSON has none.
    """
    text = octets.decode("utf-8-sig")
    if "#" not in text:
        return 0
    found, end = 0, 0
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        found += sum(line.lstrip().startswith("#") for line in text[end : token.start_mark.index].split("\n"))
        end = token.end_mark.index
    return found + sum(line.lstrip().startswith("#") for line in text[end:].split("\n"))


class _Reading:
    """One pass over the events of a text; every open collection is in a list, not on Python's stack."""

    def __init__(self, parser: Any, bounds: Bounds, marks: Marks | None) -> None:
        self._next = parser.get_event
        self._bounds = bounds
        self._marks = marks
        self._events = 0
        self._open: list[dict[str, Any] | list[Any]] = []
        self._names: list[str | None] = []
        """For each open collection: the name whose value comes next; None where a name, or an item, comes next."""

        self._whole: Any = None

    def value(self) -> Any:
        """The text's only document."""
        documents = 0
        while True:
            event = self._next()
            self._events += 1
            if self._events > self._bounds.events:
                _refuse(f"it has more than {self._bounds.events} values and names", event)
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._open.pop()
                    self._names.pop()
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        _refuse("it has more than one document", event)
                    if event.version is not None or event.tags:
                        _refuse("it has a directive", event)
                case yaml.AliasEvent():
                    _refuse("it has an alias", event)
                case yaml.StreamEndEvent():
                    if not documents:
                        _refuse("it is empty")
                    return self._whole

    def _begin(self, event: Any) -> None:
        self._plain(event)
        if len(self._open) >= self._bounds.depth:
            _refuse(f"it is nested more than {self._bounds.depth} deep", event)
        begun: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if self._open and isinstance(self._open[-1], dict) and self._names[-1] is None:
            _refuse("a name is not a string", event)
        self._put(begun, event)
        self._open.append(begun)
        self._names.append(None)

    def _scalar(self, event: Any) -> None:
        self._plain(event)
        value = _scalar(event, self._bounds.guessing) if event.implicit[0] else event.value
        if self._open and isinstance(self._open[-1], dict) and self._names[-1] is None:
            if not isinstance(value, str):
                _refuse("a name is not a string", event)
            if value in self._open[-1]:
                _refuse(f"the name {value[:64]!r} stands twice in one mapping", event)
            self._names[-1] = value
            self._mark(value, event)
        else:
            self._put(value, event)

    @staticmethod
    def _plain(event: Any) -> None:
        if event.anchor is not None:
            _refuse("it has an anchor", event)
        if event.tag is not None:
            _refuse("it has a tag", event)

    def _mark(self, name: str | int, event: Any) -> None:
        if self._marks is not None:
            mark = event.start_mark
            self._marks.setdefault(id(self._open[-1]), {})[name] = mark.line + 1, mark.column + 1

    def _put(self, value: Any, event: Any) -> None:
        if not self._open:
            self._whole = value
            return
        within = self._open[-1]
        if isinstance(within, list):
            self._mark(len(within), event)
            within.append(value)
        else:
            name = self._names[-1]
            assert name is not None
            within[name] = value
            self._names[-1] = None


def _scalar(event: Any, guessing: bool) -> Any:
    """A scalar without quotes."""
    text = event.value
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is not None:
        try:
            return jsontext.number(text, fraction=number[1] is not None or number[2] is not None)
        except jsontext.JSONTextError as error:
            _refuse(str(error), event)
    if _AMBIGUOUS.fullmatch(text) is not None and not (guessing and text[0].isdigit()):
        _refuse(f"the plain scalar {text[:32]!r} means different things to different readers; quote it", event)
    return text
