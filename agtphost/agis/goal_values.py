"""
Values for an endpoint's parameters that a goal names (AGIS v01 section 12, step 4).

A value is proposed only if it is unambiguous: it follows the parameter's name or a phrase of its hints, or it is the
only member of its enumeration, or the only word that matches its pattern or format and no other parameter's value. A
parameter named ``path`` or ``file`` takes the only file name of a goal, and dates named ``start`` and ``end`` those
behind "from" and "to". A value must match the parameter's schema. Nothing is guessed from meaning, and the reader of
the proposal decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import re2

from agtphost.contract.schemas import SchemaError, TooCostly, compile_schema

LONGEST: Final = 2_000
"""Characters of a goal that are read."""

MOST_WORDS: Final = 200
MOST_PARAMETERS: Final = 64
MOST_PHRASES: Final = 8
"""Phrases of the hints of one parameter."""

LONGEST_PATTERN: Final = 256

_WORD = re.compile(r"\"[^\"]{1,200}\"|'[^']{1,200}'(?![A-Za-z])|[^\s\"]+")
_SLOT = re.compile(r"\{[^{}]{1,40}\}|<[^<>]{1,40}>|\b[A-Z]{1,20}\b", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?", re.ASCII)
_MAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}\.[A-Za-z]{2,24}", re.ASCII)
_URI = re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S{1,500}", re.ASCII)
_FILE = re.compile(
    r"(?:[\w.-]{1,100}/){0,16}[\w-][\w.-]{1,100}\.(?!(?:com|net|org)\Z)[A-Za-z][A-Za-z0-9]{0,7}", re.ASCII
)
"""A relative or absolute path of a file with an extension; names of hosts and versions are not."""

_FILE_NAMES: Final = frozenset({"file", "filename", "filepath", "path"})
_BEGIN_NAMES: Final = frozenset({"after", "begin", "checkin", "from", "since", "start"})
_BEGIN_PHRASES: Final = ("from DATE", "since DATE")
_END_NAMES: Final = frozenset({"before", "checkout", "end", "till", "to", "until"})
_END_PHRASES: Final = ("to DATE", "till DATE", "until DATE")
_ORDINARY: Final = ("word", "Word", "the", "2")
"""A pattern that matches one of these cannot distinguish a value from other words of a goal."""

_JOINTS = re.compile(r"(?<=\w)['\u2019-](?=\w)")
"""What joins the parts of an ordinary word: ``well-known``, ``it's``."""

_SEPARATORS: Final = frozenset({"=", ":", "is", "of", "number", "no", "nr", "named", "called"})
_NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}


def goal_values(
    goal: str, properties: Mapping[str, Any], hints: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """
    Return the values that a goal names, by parameter.

    :param goal: the goal in words.
    :param properties: the schemas of the parameters, by name.
    :param hints: phrases by which people name a value: ``{"nights": ["for N nights"]}``.
    """
    words = _words(goal[:LONGEST])
    named: dict[str, Any] = {}
    shaped: dict[str, Any] = {}
    for name, schema in [*properties.items()][:MOST_PARAMETERS]:
        if not isinstance(name, str) or not isinstance(schema, Mapping):
            continue
        # A method is used only if the ones before it found nothing.
        ways = (
            (named, _find_by_name(name, schema, words)),
            (named, _find_by_hint(words, (hints or {}).get(name, ()))),
            (named, _find_by_hint(words, _range_phrases(name, schema))),
            (shaped, _find_by_shape(name, schema, words)),
        )
        for found, way in ways:
            values = _valid_values(way, schema)
            if len(values) == 1:
                found[name] = values[0]
            if values:
                break
    # One date in a goal is not both the arrival and the departure.
    taken = [*named.values(), *shaped.values()]
    return named | {name: value for name, value in shaped.items() if taken.count(value) == 1}


def name_files(goal: str, names: Collection[str] = ()) -> str:
    """
    Return a goal with the word "file" in place of each file name: "read welcome.txt" asks for what reads a file.

    The parts of such a name say nothing of what is wanted.

    :param names: words with dots that do not name files, such as the names of tools.
    """

    def name(found: re.Match[str]) -> str:
        word = found[0].strip("\"',.;!?()[]")
        return "file" if word not in names and _FILE.fullmatch(word) else found[0]

    return re.sub(r"\S+", name, goal)


class Quotation(str):
    """A word of a goal that is in quotation marks there."""

    __slots__ = ()


def _words(goal: str) -> list[str]:
    """Return the words of a goal without punctuation; a quotation is one word."""
    found = []
    for each in _WORD.findall(goal.replace("=", " = ").replace(": ", " : ")):
        quoted = len(each) > 2 and each[0] in "\"'" and each[-1] == each[0]
        word = Quotation(each[1:-1]) if quoted else each.strip(",.;!?()[]")
        if word:
            found.append(word)
    return found[:MOST_WORDS]


def _parts(name: str) -> list[str]:
    """Return the words of a parameter's name: ``orderNumber`` and ``order_number`` are both ``order number``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").lower().split()


def _places(words: Sequence[str], parts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the positions of a name in a goal: its first word, and the word after it."""
    lower = [word.lower() for word in words]
    for begin in range(len(words) - len(parts) + 1):
        if lower[begin : begin + len(parts)] == [*parts]:
            yield begin, begin + len(parts)


def _find_by_name(name: str, schema: Mapping[str, Any], words: Sequence[str]) -> Iterator[str]:
    """
    Yield values next to the parameter's name: ``isbn 978...``, ``path notes.txt``, ``room = attic``, ``title "Emma"``.

    For numbers also ``3 nights``.
    """
    places = [*_places(words, [name.lower()]), *_places(words, _parts(name))]
    for begin, end in dict.fromkeys(places):
        explicit = end < len(words) and words[end].lower() in _SEPARATORS
        behind = words[end + explicit] if end + explicit < len(words) else ""
        if behind and (explicit or not _is_ordinary(behind) or behind in _enum_values(schema)):
            yield behind
        elif begin and _kinds(schema) & {"integer", "number"}:
            yield words[begin - 1]


def _is_ordinary(word: str) -> bool:
    """Return whether a word of a goal may be one of its sentence rather than a value: not quoted, and of letters."""
    return not isinstance(word, Quotation) and _JOINTS.sub("", word).isalpha()


def _find_by_hint(words: Sequence[str], phrases: Any) -> Iterator[str]:
    """Yield the words at the position of a phrase's capital word: ``for N people``."""
    listed = phrases if isinstance(phrases, (list, tuple)) else ()
    lower = [word.lower() for word in words]
    for phrase in [each for each in listed if isinstance(each, str)][:MOST_PHRASES]:
        slot = _SLOT.search(phrase)
        if slot is None:
            continue
        before, behind = phrase[: slot.start()].lower().split(), phrase[slot.end() :].lower().split()
        for place in range(len(before), len(words) - len(behind)):
            fits = lower[place - len(before) : place] == before
            if (before or behind) and fits and lower[place + 1 : place + 1 + len(behind)] == behind:
                yield words[place]


def _range_phrases(name: str, schema: Mapping[str, Any]) -> Sequence[str]:
    """
    Return the phrases of a date whose name says which end of a range it is: ``from DATE`` for ``start_date``.

    ``arrival`` and ``departure`` do not say it: the arrival begins a stay and ends a flight.
    """
    if schema.get("format") not in ("date", "date-time"):
        return ()
    begins, ends = (not names.isdisjoint(_parts(name)) for names in (_BEGIN_NAMES, _END_NAMES))
    return () if begins is ends else _BEGIN_PHRASES if begins else _END_PHRASES


def _find_by_shape(name: str, schema: Mapping[str, Any], words: Sequence[str]) -> Iterator[str]:
    """Yield the words that match the enumeration, the pattern or the format, or are files where the name says file."""
    enumerated = _enum_values(schema)
    if enumerated:
        yield from (word for word in words if word in enumerated)
        return
    takes = _pattern(schema) or _FORMATS.get(str(schema.get("format")))
    if takes is None and not schema.keys() & {"pattern", "format"} and not _FILE_NAMES.isdisjoint(_parts(name)):
        takes = _is_file
    if takes is not None:
        yield from (word for word in words if takes(word))


def _enum_values(schema: Mapping[str, Any]) -> list[str]:
    values = schema.get("enum")
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _pattern(schema: Mapping[str, Any]) -> Callable[[str], bool] | None:
    """Return a test of the schema's pattern; None for a pattern that ordinary words match."""
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
        return None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    if any(compiled.search(word) is not None for word in _ORDINARY):
        return None
    return lambda word: compiled.search(word) is not None


def _is_date(word: str) -> bool:
    try:
        return len(word) == len("2027-01-31") and bool(date.fromisoformat(word))
    except ValueError:
        return False


def _is_file(word: str) -> bool:
    return _FILE.fullmatch(word.removeprefix("/")) is not None


def _is_moment(word: str) -> bool:
    try:
        return "T" in word and datetime.fromisoformat(word).tzinfo is not None
    except ValueError:
        return False


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "date-time": _is_moment,
    "email": lambda word: _MAIL.fullmatch(word) is not None,
    "uri": lambda word: _URI.fullmatch(word) is not None,
}


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    declared = schema.get("type", "string")
    return frozenset([declared] if isinstance(declared, str) else declared if isinstance(declared, list) else ())


def _valid_values(words: Iterator[str], schema: Mapping[str, Any]) -> list[Any]:
    """Return the different values that match the schema; at most two."""
    # The schema's validator takes texts, and none of their subclasses.
    candidates = [str(word) for word in dict.fromkeys(words)]
    if not candidates:
        return []
    try:
        compiled = compile_schema(
            {"type": "object", "properties": {"value": dict(schema)}, "required": ["value"]}, role="output"
        )
        typed = [value for word in candidates for value in _convert(word, _kinds(schema))]
        return [value for value in typed if compiled.is_valid({"value": value})][:2]
    except (SchemaError, TooCostly):
        return []


def _convert(word: str, kinds: frozenset[str]) -> Iterator[Any]:
    """Yield a word as a value of the possible types."""
    if kinds & {"integer", "number"}:
        number = str(_NUMBER_WORDS.get(word.lower(), word))
        if _NUMBER.fullmatch(number):
            yield int(number) if "." not in number else float(number)
            return
    if "boolean" in kinds and word.lower() in ("true", "false"):
        yield word.lower() == "true"
    elif "string" in kinds:
        yield word
