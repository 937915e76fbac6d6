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
    """The text is not YAML as this host reads it; the message says where and why."""


def available() -> bool:
    """Whether this Python's PyYAML was built with libyaml: without it, no YAML is read."""
    return _PARSER is not None


def _refuse(message: str, event: Any = None) -> NoReturn:
    mark = getattr(event, "start_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    raise YAMLTextError(message + where)


def decode(octets: bytes) -> Any:
    """
    Read one YAML text.

    :param octets: the whole text, UTF-8 without a byte order mark.
    :return: dicts, lists, strings, ints within 2**53, finite floats, booleans and None.
    :raises YAMLTextError: naming what is wrong.
    """
    if len(octets) > MAX_OCTETS:
        _refuse(f"it has more than {MAX_OCTETS} octets")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YAMLTextError(f"it is not UTF-8 (octet {error.start})") from None
    if text.startswith("\ufeff"):
        _refuse("it begins with a byte order mark")
    try:
        return _Reading(_PARSER(text)).value()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise YAMLTextError(f"{error.problem or 'it cannot be parsed'}{where}") from None
    except yaml.YAMLError as error:
        raise YAMLTextError(f"it cannot be parsed: {error}"[:160]) from None


class _Reading:
    """One pass over the events of a text; every open collection is in a list, not on Python's stack."""

    def __init__(self, parser: Any) -> None:
        self._next = parser.get_event
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
            if self._events > MAX_EVENTS:
                _refuse(f"it has more than {MAX_EVENTS} values and names")
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
        if len(self._open) >= MAX_DEPTH:
            _refuse(f"it is nested more than {MAX_DEPTH} deep", event)
        begun: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if self._open and isinstance(self._open[-1], dict) and self._names[-1] is None:
            _refuse("a name is not a string", event)
        self._put(begun)
        self._open.append(begun)
        self._names.append(None)

    def _scalar(self, event: Any) -> None:
        self._plain(event)
        value = _scalar(event) if event.implicit[0] else event.value
        if self._open and isinstance(self._open[-1], dict) and self._names[-1] is None:
            if not isinstance(value, str):
                _refuse("a name is not a string", event)
            if value in self._open[-1]:
                _refuse(f"the name {value[:64]!r} stands twice in one mapping", event)
            self._names[-1] = value
        else:
            self._put(value)

    @staticmethod
    def _plain(event: Any) -> None:
        if event.anchor is not None:
            _refuse("it has an anchor", event)
        if event.tag is not None:
            _refuse("it has a tag", event)

    def _put(self, value: Any) -> None:
        if not self._open:
            self._whole = value
            return
        within = self._open[-1]
        if isinstance(within, list):
            within.append(value)
        else:
            name = self._names[-1]
            assert name is not None
            within[name] = value
            self._names[-1] = None


def _scalar(event: Any) -> Any:
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
    if _AMBIGUOUS.fullmatch(text) is not None:
        _refuse(f"the plain scalar {text[:32]!r} means different things to different readers; quote it", event)
    return text
