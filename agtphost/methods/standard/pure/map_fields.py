"""
MAP: which field of one schema is which of another (methods v01 section 6.5); and records converted by such a mapping.

A mapping is data, which TRANSFORM takes as it is::

    {"fields": [{"source": "cust_name", "target": "customer.name", "type": "string", "confidence": 0.9}],
     "preserve": false}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material
from agtphost.search.index import SearchEntry
from agtphost.search.word_stems import split_name, terms
from agtphost.vocabulary.reasons import Reason

STRATEGIES = ("exact", "semantic", "custom")
POLICIES = ("ignore", "flag", "preserve")
MAX_FIELDS = 200
MAX_DEPTH = 8
MAX_SPELT = 2_500
"""Pairs of fields whose letters are compared, which takes long, where they have no words in common."""

LEAST = 0.45
"""The least confidence of a correspondence."""

TYPES = ("string", "number", "integer", "boolean")

_SHORT = {
    "addr": "address",
    "amt": "amount",
    "cust": "customer",
    "desc": "description",
    "dob": "birth date",
    "fname": "first name",
    "lname": "last name",
    "mail": "email",
    "no": "number",
    "nr": "number",
    "num": "number",
    "org": "organization",
    "ph": "phone",
    "prod": "product",
    "qty": "quantity",
    "ref": "reference",
    "tel": "phone",
    "zip": "postal code",
    "postcode": "postal code",
    "surname": "last name",
    "sku": "product id",
    "identifier": "id",
}
"""Words that stand for others in names of fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A leaf of a schema."""

    place: str
    type: str
    """Empty where the schema does not say."""

    description: str

    @property
    def words(self) -> str:
        """The field's name in words."""
        words = (word.lower() for word in split_name(self.place).split())
        return " ".join(_SHORT.get(word, word) for word in words)


def fields_of(call: Mapping[str, Any], name: str) -> list[Field]:
    """
    Return the fields of a JSON Schema, of an object of types by name, of an example record, or of a list of names.

    :raises Refusal: 422 for anything else, and for more than :data:`MAX_FIELDS`.
    """
    schema = material.require(call, name)
    if isinstance(schema, list):
        found = [_read_field(each) for each in schema]
    elif isinstance(schema, Mapping):
        inner = schema.get("properties") if isinstance(schema.get("properties"), Mapping) else None
        found = [*_read_members(inner if inner is not None else schema, "", 1, schema=inner is not None)]
    else:
        found = []
    sound = [field for field in found if field is not None and material.is_place(field.place)]
    if not 0 < len(found) <= MAX_FIELDS or len(sound) != len(found):
        raise parameters.invalid(
            name,
            f"{name} does not have 1 to {MAX_FIELDS} fields.",
            'Send a JSON Schema with properties, {"order_no": "string"}, or a list of names.',
        )
    return sound


def _read_field(each: Any) -> Field | None:
    if isinstance(each, str):
        return Field(place=each, type="", description="")
    if isinstance(each, Mapping) and isinstance(each.get("name"), str):
        return Field(
            place=each["name"], type=_type(each.get("type")), description=str(each.get("description", ""))[:500]
        )
    return None


def _type(declared: Any) -> str:
    return declared if declared in TYPES else ""


def _read_members(members: Mapping[str, Any], above: str, depth: int, *, schema: bool) -> Iterator[Field | None]:
    for name, said in members.items():
        place = f"{above}.{name}" if above else str(name)
        inner = (said.get("properties") if schema else said) if isinstance(said, Mapping) else None
        if isinstance(inner, Mapping) and inner and depth < MAX_DEPTH:
            yield from _read_members(inner, place, depth + 1, schema=schema)
        elif schema:
            told = said if isinstance(said, Mapping) else {}
            described = " ".join(str(told.get(key, "")) for key in ("title", "description"))[:500]
            yield Field(place=place, type=_type(told.get("type")), description=described.strip())
        else:
            kind = said if isinstance(said, str) and said in TYPES else _type_of(said)
            yield Field(place=place, type=kind, description="")


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {str: "", int: "integer", float: "number"}.get(type(value), "")


def entries(fields: Sequence[Field]) -> list[SearchEntry]:
    """Return the fields as entries of a search, in their order."""
    return [SearchEntry(field.words, field.description) for field in fields]


Similar = Mapping[int, Mapping[int, float]]
"""For numbers of target fields the numbers of source fields that a search found, with scores from 0 to 1."""


def map_fields(call: Mapping[str, Any], similar: Similar | None = None, engine: str = "") -> dict[str, Any]:
    """
    Return the result of MAP.

    :param call: ``source_schema`` and ``target_schema``; ``strategy``: ``exact`` (equal names) or ``semantic``;
        ``unmapped_policy``: ``flag`` (lists unmapped fields), ``ignore``, or ``preserve`` (TRANSFORM carries
        them over as they are).
    :param similar: what a search by meaning found.
    :raises Refusal: 422 for anything else; 503 for ``custom``, which is an operator's endpoint.
    """
    sources, targets = fields_of(call, "source_schema"), fields_of(call, "target_schema")
    strategy = parameters.choice(call, "strategy", STRATEGIES, "semantic")
    policy = parameters.choice(call, "unmapped_policy", POLICIES, "flag")
    if strategy == "custom":
        raise Refusal(
            Reason.PROVIDER_MISSING,
            "The host itself provides only the strategies exact and semantic.",
            details={"parameter": "strategy"},
        )
    pairs = _pairs(sources, targets, similar or {}, exact=strategy == "exact")
    fields = [
        {
            "source": sources[source].place,
            "target": targets[target].place,
            **({"type": targets[target].type} if targets[target].type else {}),
            "confidence": round(score, 4),
            "basis": basis,
        }
        for target, (source, score, basis) in sorted(pairs.items())
    ]
    result: dict[str, Any] = {
        "mapping": {"fields": fields, "preserve": policy == "preserve"},
        "strategy": strategy,
        "unmapped_policy": policy,
    }
    if engine:
        result["engine"] = engine
    if policy != "ignore":
        used = {source for source, _, _ in pairs.values()}
        result["unmapped"] = {
            "source": [field.place for number, field in enumerate(sources) if number not in used],
            "target": [field.place for number, field in enumerate(targets) if number not in pairs],
        }
    return result


Pair = tuple[int, float, str]


def _pairs(sources: Sequence[Field], targets: Sequence[Field], similar: Similar, *, exact: bool) -> dict[int, Pair]:
    """Pair target fields with source fields, each used at most once, the surest first."""
    offered: list[tuple[float, int, int, str]] = []
    said = [({*terms(field.words)}, field.words) for field in sources]
    spelt = len(sources) * len(targets) <= MAX_SPELT
    for number, target in enumerate(targets):
        words, name = {*terms(target.words)}, target.words
        for other, source in enumerate(sources):
            if source.place == target.place:
                offered.append((1.0, other, number, "the same name"))
            elif not exact:
                score, basis = _similarity(said[other], (words, name), similar.get(number, {}).get(other, 0.0), spelt)
                if source.type and target.type and not _convertible(source.type, target.type):
                    score *= 0.6
                if score >= LEAST:
                    offered.append((score, other, number, basis))
    offered.sort(key=lambda each: (-each[0], each[2], each[1]))
    pairs: dict[int, Pair] = {}
    used: set[int] = set()
    for score, source_number, target_number, basis in offered:
        if source_number not in used and target_number not in pairs:
            pairs[target_number] = source_number, score, basis
            used.add(source_number)
    return pairs


def _similarity(
    one: tuple[set[str], str], other: tuple[set[str], str], meaning: float, spelt: bool
) -> tuple[float, str]:
    """Return how similar two fields are, and the reason."""
    if one[0] and one[0] == other[0]:
        return 0.95, "the same words"
    shared = one[0] & other[0]
    words = 0.9 * len(shared) / max(len(one[0] | other[0]), 1)
    if shared and min(len(one[0]), len(other[0])) == len(shared):
        words = max(words, 0.6 + 0.2 * len(shared) / max(len(one[0]), len(other[0])))
    letters = 0.0
    if spelt and words < LEAST and one[1][:1] == other[1][:1]:
        letters = 0.75 * SequenceMatcher(None, one[1][:64], other[1][:64]).ratio()
    return max((words, "words in common"), (0.9 * meaning, "the search"), (letters, "similar letters"))


def _convertible(one: str, other: str) -> bool:
    return one == other or "string" in (one, other) or {one, other} == {"number", "integer"}


# Records converted


@dataclass(frozen=True, kw_only=True)
class FieldMap:
    """A mapping that was read."""

    fields: tuple[tuple[str, str, str], ...]
    """Places in the source and in the target, and the type there, or nothing."""

    preserve: bool


def read(said: Any) -> FieldMap:
    """
    Read a mapping: as MAP gives it, the whole result of MAP, or an object of source places by target place.

    :raises Refusal: 422 for anything else.
    """
    if isinstance(said, Mapping) and isinstance(said.get("mapping"), Mapping):
        said = said["mapping"]
    if isinstance(said, Mapping) and isinstance(said.get("fields"), list):
        listed = [each if isinstance(each, Mapping) else {} for each in said["fields"]]
        triples = [(each.get("source"), each.get("target"), each.get("type", "")) for each in listed]
        preserve = said.get("preserve") is True
    elif isinstance(said, Mapping):
        triples, preserve = [(source, target, "") for target, source in said.items()], False
    else:
        triples, preserve = [], False
    fields = tuple(
        (str(source), str(target), str(kind))
        for source, target, kind in triples
        if material.is_place(source) and material.is_place(target) and kind in ("", *TYPES)
    )
    if not 0 < len(triples) <= MAX_FIELDS or len(fields) != len(triples):
        raise parameters.invalid(
            "mapping",
            f"mapping does not have 1 to {MAX_FIELDS} fields, each with places as source and target.",
            'Send the mapping that MAP returned, or {"customer.name": "cust_name"}.',
        )
    return FieldMap(fields=fields, preserve=preserve)


def convert(record: Any, mapping: FieldMap) -> dict[str, Any]:
    """
    Return a record with the fields of the target.

    :raises Refusal: 422 for a record that is not an object, or has a value that is not of the target's type.
    """
    if not isinstance(record, Mapping):
        raise parameters.invalid("source", "A record to map is not an object.", "Map objects, or leave mapping out.")
    found: dict[str, Any] = {}
    for source, target, kind in mapping.fields:
        value = material.at(record, source)
        if value is not material.MISSING and not material.put(found, target, convert_value(value, kind, source)):
            raise parameters.invalid("mapping", f"{target[:64]!r} is inside another target.", "Correct mapping.")
    if mapping.preserve:
        used = {source.partition(".")[0] if source not in record else source for source, _, _ in mapping.fields}
        for name, value in record.items():
            if name not in used:
                found.setdefault(name, value)
    return found


def convert_value(value: Any, kind: str, place: str) -> Any:
    """
    Convert a value to a type without loss.

    :raises Refusal: 422 where it cannot.
    """
    if value is None or not kind or isinstance(value, (dict, list)):
        return value
    text = value.strip() if isinstance(value, str) else None
    try:
        match kind:
            case "string":
                return value if text is not None else str(value).lower() if isinstance(value, bool) else str(value)
            case "boolean" if text is not None and text.lower() in _FLAGS:
                return _FLAGS[text.lower()]
            case "boolean" if isinstance(value, bool):
                return value
            case "integer" if text is not None and len(text) <= 18:
                return int(text)
            case "number" if text is not None and len(text) <= 32 and "_" not in text:
                number = float(text)
                if material.number(number) is None:
                    raise ValueError(text)
                return int(number) if number == int(number) and "." not in text else number
            case "integer" | "number" if material.number(value) is not None:
                if kind == "number" or value == int(value):
                    return int(value) if kind == "integer" else value
    except ValueError:
        pass
    raise parameters.invalid("source", f"A value of {place[:64]!r} is no {kind}.", "Correct the data, or the mapping.")


_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
