"""
EXTRACT: what a schema asks for, found in a text by its form and by what it is called there (methods v01 section 4.1).

Nothing is made up: every value is in the text, dates and numbers written as the schema has them. A field is looked
for by its label (``Due date: 3 May 2026``), and else by its form: dates, amounts, addresses of mail, members of an
enumeration, patterns, and, in contracts, parties and obligations. Regular expressions are RE2's: the cost
depends only on the length of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from agtphost.contract.schemas import TooCostly
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.cognitive.relevance import said_in
from agtphost.methods.standard.pure import dates, material
from agtphost.methods.standard.pure.transform import callers_schema
from agtphost.search.word_stems import split_name, terms
from agtphost.vocabulary.reasons import Reason

MAX_FIELDS = 100
MAX_DEPTH = 4
MAX_FOUND = 200
"""Members of a list that is extracted."""

MAX_PATTERN = 256

LABELLED = 0.9
"""The confidence of a value found after the field's name."""

NEAR = 0.75
"""And one of the right form, with a word of the name before it."""

FORM = 0.5
"""And one of the right form, where there is only one."""

AMONG = 0.3
"""And the first of several."""

_FORMS = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    "uri": r"\b(?:https?|agtp|ftp)://[^\s<>\"')\]]{1,500}",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "date": dates.IN_TEXT,
    "date-time": dates.IN_TEXT,
    "ipv4": r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b",
}
_NUMBER = r"-?\b[0-9]{1,3}(?:[, ][0-9]{3})+(?:\.[0-9]{1,10})?\b|-?\b[0-9]{1,15}(?:\.[0-9]{1,10})?\b"
_CURRENCY = r"(?:[$€£¥]|\b(?:USD|EUR|GBP|CHF|JPY)\b)"
_AMOUNT = rf"{_CURRENCY} ?[0-9][0-9,. ]{{0,15}}[0-9]|[0-9][0-9,.]{{0,15}} ?{_CURRENCY}"
_IDENTIFIER = r"\b[A-Z]{1,6}[-/#][A-Za-z0-9][A-Za-z0-9/-]{1,30}\b|#[A-Za-z0-9-]{2,30}\b"
_QUANTIFIED = r"\b[A-Z][\w&'.-]*(?: (?:(?:of|and|&|the|de|van|von) )?[A-Z][\w&'.-]*){0,5}"
_PARTIES = r"(?i:between|by and between|by) (" + _QUANTIFIED[2:] + r").{0,200}?\b(?i:and) (" + _QUANTIFIED[2:] + r")"
_SENTENCE = r"[^.;\n][^.;\n]{0,600}(?:\.[0-9][^.;\n]{0,300})*[.;]?"
_OBLIGES = r"(?i)\b(?:shall|must|agrees? to|undertakes? to|is obliged to|is required to|will be liable)\b"

_AMOUNTS = frozenset(terms("amount price total cost fee sum value payment salary budget tax subtotal balance"))
_IDENTIFIERS = frozenset(terms("id number reference code identifier no invoice order"))
_PARTY = frozenset(terms("party parties contractor signatory"))
_OBLIGATION = frozenset(terms("obligation duty clause commitment undertaking covenant"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A value for a field."""

    value: Any
    confidence: float


def extract(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of EXTRACT.

    :param call: ``source``: a text, or JSON whose words are read; ``schema``: that of an object;
        ``confidence_threshold``, below which a field is left out.
    :raises Refusal: 422 for anything else, and where the text does not have what the schema requires.
    """
    source = material.require(call, "source")
    text = source if isinstance(source, str) else "\n".join(_json_to_lines(source))
    text = material.text({"source": text}, "source")
    schema = material.require(call, "schema")
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise parameters.invalid(
            "schema",
            "schema is not that of an object with properties.",
            'Send {"type": "object", "properties": {...}}.',
        )
    compiled = callers_schema(schema, "schema")
    work = _Extraction(text, material.share(call, "confidence_threshold", 0.0))
    data = work.object(schema, "", 1) or {}
    try:
        faults = [] if compiled.is_valid(data) else compiled.faults(data)
        # A value that was found and breaks its schema was not what was looked for.
        for place in {str(fault["path"]).split("/")[1] for fault in faults if str(fault["path"]).count("/")}:
            data.pop(place, None)
            work.forget(place)
        if faults and not compiled.is_valid(data):
            raise Refusal(
                Reason.INVALID_PARAMETER,
                "The source lacks values that the schema requires.",
                remedy="Send a source that has them, or require less.",
                details={"parameter": "source", "faults": compiled.faults(data), "found": data},
            )
    except TooCostly as error:
        raise Refusal(error.reason) from None
    return {"data": data, "confidence": work.confidence, "not_found": work.missing}


def _json_to_lines(value: Any) -> Iterator[str]:
    """Yield JSON as lines with labels."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{split_name(name)}: {inner if isinstance(inner, str) else said_in(inner)}"
    elif isinstance(value, list):
        for inner in value:
            yield from _json_to_lines(inner)
    else:
        yield str(value)


@cache
def _compile_own(pattern: str) -> Any:
    """Return a compiled pattern of this module; callers' patterns are not cached."""
    return _expression(pattern)


def _expression(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 4 << 20
    return re2.compile(pattern, options)


class _Extraction:
    def __init__(self, text: str, threshold: float) -> None:
        self._text = text
        self._threshold = threshold
        self._count = 0
        self.confidence: dict[str, float] = {}
        self.missing: list[str] = []

    def forget(self, place: str) -> None:
        for each in [each for each in self.confidence if each == place or each.startswith(f"{place}.")]:
            del self.confidence[each]
        self.missing.append(place)

    def object(self, schema: Mapping[str, Any], above: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, inner in schema["properties"].items():
            place = f"{above}.{name}" if above else name
            self._count += 1
            if self._count > MAX_FIELDS:
                raise parameters.invalid("schema", f"schema has more than {MAX_FIELDS} fields.", "Ask for fewer.")
            if not isinstance(inner, Mapping):
                self.missing.append(place)
                continue
            if isinstance(inner.get("properties"), Mapping) and depth < MAX_DEPTH:
                below = self.object(inner, place, depth + 1)
                if below:
                    data[name] = below
                continue
            found = self._field(name, inner)
            if found is None or found.confidence < self._threshold:
                self.missing.append(place)
            else:
                data[name] = found.value
                self.confidence[place] = round(found.confidence, 2)
        return data

    def _field(self, name: str, schema: Mapping[str, Any]) -> Found | None:
        kind = schema.get("type")
        if kind == "array":
            return self._list(name, schema)
        labels = _labels(name, schema)
        read = _reader(schema)
        for label in labels:
            said = self._find_labelled(label)
            if said is not None and (value := read(said)) is not None:
                return Found(value=value, confidence=LABELLED)
        words = {*terms(split_name(name))}
        if kind == "string" and "format" not in schema and words & _PARTY:
            parties = self._parties()
            return Found(value=parties[0], confidence=FORM) if parties else None
        return self._by_form(_pattern(schema, words), read, words)

    def _find_labelled(self, label: str) -> str | None:
        """Return the text after a label on its line."""
        words = r"[\s_-]{1,3}".join(map(re2.escape, label.split()))
        match = _expression(rf"(?im)(?:^|[\s,;(|*-]){words}\**[ \t]*(?:[:=|]|\bis\b)[ \t|*]*([^\n|]{{1,500}})").search(
            self._text
        )
        return match[1].strip() if match else None

    def _by_form(self, pattern: str, read: Callable[[str], Any], words: set[str]) -> Found | None:
        if not pattern:
            return None
        candidates: list[tuple[int, Any]] = []
        for match in self._matches(pattern):
            value = read(match.group(0))
            if value is not None:
                candidates.append((match.start(), value))
        for start, value in candidates:
            before = self._text[max(0, start - 60) : start].rpartition("\n")[2]
            if words & {*terms(before)}:
                return Found(value=value, confidence=NEAR)
        if not candidates:
            return None
        return Found(value=candidates[0][1], confidence=FORM if len(candidates) == 1 else AMONG)

    def _matches(self, pattern: str) -> Iterator[Any]:
        for count, match in enumerate(_expression(pattern).finditer(self._text)):
            if count >= MAX_FOUND:
                return
            yield match

    def _list(self, name: str, schema: Mapping[str, Any]) -> Found | None:
        items = schema.get("items")
        items = items if isinstance(items, Mapping) else {"type": "string"}
        read = _reader(items)
        words = {*terms(split_name(name))}
        plain = items.get("type", "string") == "string" and not {"format", "pattern", "enum"} & items.keys()
        if plain and words & _PARTY:
            found: Sequence[Any] = self._parties()
            confidence = NEAR
        elif plain and words & _OBLIGATION:
            found, confidence = self._obligations(), NEAR
        else:
            pattern = _pattern(items, words)
            found = (
                [value for match in self._matches(pattern) if (value := read(match.group(0))) is not None]
                if pattern
                else []
            )
            confidence = NEAR if found and not plain else FORM
            if not found:
                for label in _labels(name, schema):
                    said = self._find_labelled(label)
                    if said is not None:
                        parts = (part.strip(" .") for part in said.replace(" and ", ",").replace(";", ",").split(","))
                        found = [value for part in parts if part and (value := read(part)) is not None]
                        confidence = LABELLED
                        break
        if not found:
            return None
        unique = {repr(value): value for value in found}
        return Found(value=list(unique.values())[:MAX_FOUND], confidence=confidence)

    def _parties(self) -> list[str]:
        """Return the two names of ``between A and B``, or the names after ``Buyer:`` and similar words."""
        match = _compile_own(_PARTIES).search(self._text)
        if match:
            return [match[1].strip(" .,"), match[2].strip(" .,")]
        roles = ("buyer", "seller", "supplier", "customer", "client", "contractor", "lessor", "lessee", "party")
        return [said.rstrip(" .") for role in roles if (said := self._find_labelled(role)) is not None]

    def _obligations(self) -> list[str]:
        sentences = (match.group(0).strip() for match in self._sentences())
        return [sentence for sentence in sentences if _compile_own(_OBLIGES).search(sentence)]

    def _sentences(self) -> Iterator[Any]:
        yield from _compile_own(_SENTENCE).finditer(self._text)


def _labels(name: str, schema: Mapping[str, Any]) -> list[str]:
    """Return the possible names of the field in the text, the best first."""
    title = schema.get("title")
    words = split_name(name).lower()
    found = [title[:64]] if isinstance(title, str) and title.strip() else []
    found.append(words)
    if len(words.split()) > 1:
        found += [words.rpartition(" ")[0]] if words.split()[-1] in ("id", "number", "name", "date") else []
        found += (
            [words.replace(" number", " no.").replace(" id", " no.")] if " number" in words or " id" in words else []
        )
    return [label for label in dict.fromkeys(found) if label.strip()]


def _pattern(schema: Mapping[str, Any], words: set[str]) -> str:
    """Return a pattern for values of a field; empty where any text may be one."""
    pattern, form, kind = schema.get("pattern"), schema.get("format"), schema.get("type")
    if isinstance(schema.get("enum"), list):
        said = [each for each in schema["enum"] if isinstance(each, str) and 0 < len(each) <= 64]
        return r"(?i)\b(?:" + "|".join(re2.escape(each) for each in said[:100]) + r")\b" if said else ""
    if isinstance(pattern, str):
        inner = pattern.removeprefix("^").removesuffix("$")
        try:
            if inner and len(inner) <= MAX_PATTERN:
                _expression(inner)
                return inner
        except re2.error:
            return ""
        return ""
    if isinstance(form, str):
        return _FORMS.get(form, "")
    if kind in ("number", "integer"):
        return _AMOUNT if words & _AMOUNTS else _NUMBER
    if kind in ("string", None):
        if {"email", "mail"} & words:
            return _FORMS["email"]
        if "date" in words:
            return _FORMS["date"]
        if words & _AMOUNTS:
            return _AMOUNT
        if words & _IDENTIFIERS:
            return _IDENTIFIER
    return ""


def _reader(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    """Makes of a text what the field has; None where it is none."""
    kind, form, enum = schema.get("type"), schema.get("format"), schema.get("enum")
    if isinstance(enum, list):
        known = {str(each).lower(): each for each in enum}
        return lambda said: next((known[each] for each in _beginnings(said) if each in known), None)
    if kind in ("number", "integer"):
        return lambda said: _number(said, whole=kind == "integer")
    if kind == "boolean":
        return _boolean
    if form in ("date", "date-time"):
        return lambda said: _date(said, timed=form == "date-time")
    if isinstance(form, str) and form in _FORMS:
        return lambda said: match.group(0).rstrip(".,;") if (match := _compile_own(_FORMS[form]).search(said)) else None
    if isinstance(schema.get("pattern"), str):
        pattern = _pattern(schema, set())
        return lambda said: match.group(0) if pattern and (match := _expression(pattern).search(said)) else None
    return lambda said: said.strip(" \t*|").rstrip(".;,") or None


def _beginnings(text: str) -> Iterator[str]:
    """Yield the text, and its first words: ``approved`` of "Approved, with remarks"."""
    words = text.lower().strip(" .,;*|").split()[:6]
    for count in range(len(words), 0, -1):
        yield " ".join(words[:count]).strip(" .,;")


def _number(text: str, *, whole: bool) -> int | float | None:
    match = _compile_own(_NUMBER).search(text.replace("\u00a0", " "))
    if match is None:
        return None
    number = float(match.group(0).replace(",", "").replace(" ", ""))
    if number == int(number) and (whole or "." not in match.group(0)):
        return int(number)
    return None if whole else number


def _boolean(text: str) -> bool | None:
    first = text.lower().strip(" .,;*|").split()[:1]
    return {"yes": True, "true": True, "no": False, "false": False}.get(first[0]) if first else None


def _date(text: str, *, timed: bool) -> str | None:
    match = _compile_own(dates.IN_TEXT).search(text)
    if match is None:
        return None
    try:
        found = dates.canonical(match.group(0))
    except dates.DateError:
        return None
    if timed:
        return found if len(found) > len("2026-01-31T") and found[-6:-5] in "+-" else None
    return found[: len("2026-01-31")]
