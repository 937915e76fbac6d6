"""
MAP: which field of one schema is which of another (methods v01 section 6.5); and records converted by such a mapping.

A mapping is data, which TRANSFORM takes as it is::

    {"fields": [{"source": "cust_name", "target": "customer.name", "type": "string", "confidence": 0.9}],
     "preserve": false}

Fields with the same name correspond. Which others do is for a provider to say, of the strategy ``semantic`` or
``custom``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material

STRATEGIES = ("exact", "semantic", "custom")
POLICIES = ("ignore", "flag", "preserve")
MAX_FIELDS = 200
MAX_DEPTH = 8

TYPES = ("string", "number", "integer", "boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A leaf of a schema."""

    place: str
    type: str
    """Empty where the schema does not say."""

    description: str

    def to_json(self) -> dict[str, str]:
        """Return the field as a provider gets it."""
        return {"field": self.place, "type": self.type, "description": self.description}


def fields_of(call: Mapping[str, Any], name: str) -> list[Field]:
    """
    Return the fields of a JSON Schema, of an object of types by name, of an example record, or of a list of names.

    :raises agtphost.errors.Refusal: 422 for anything else, and for more than :data:`MAX_FIELDS`.
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


def map_fields(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of MAP; or, for a provider that was not asked yet, the fields that it gets.

    :param job: ``call``: ``source_schema`` and ``target_schema``, ``unmapped_policy``: ``flag`` (lists unmapped
        fields), ``ignore``, or ``preserve`` (TRANSFORM carries them over as they are); ``strategy``: ``exact`` (the
        same names), or a provider's; ``found``: the provider's result, with ``fields`` that each have ``source``,
        ``target``, ``confidence`` and possibly ``basis``.
    :return: ``asked``: the fields of both schemas; or ``result``; or the ``fault`` of the provider.
    :raises agtphost.errors.Refusal: 422 for parameters of another form.
    """
    call, strategy = job["call"], job["strategy"]
    sources, targets = fields_of(call, "source_schema"), fields_of(call, "target_schema")
    policy = parameters.choice(call, "unmapped_policy", POLICIES, "flag")
    if strategy == "exact":
        there = {source.place for source in sources}
        offered = [
            {"source": target.place, "target": target.place, "confidence": 1.0, "basis": "the same name"}
            for target in targets
            if target.place in there
        ]
    elif "found" not in job:
        return {
            "asked": {"source": [each.to_json() for each in sources], "target": [each.to_json() for each in targets]}
        }
    else:
        offered = job["found"].get("fields")
        if not isinstance(offered, list) or not all(map(_is_pair, offered)):
            return {"fault": "its result has no fields that are a source and a target with a confidence from 0 to 1"}
    pairs = _pairs(sources, targets, offered)
    result: dict[str, Any] = {
        "mapping": {"fields": pairs, "preserve": policy == "preserve"},
        "strategy": strategy,
        "unmapped_policy": policy,
    }
    if policy != "ignore":
        result["unmapped"] = {
            side: [field.place for field in fields if field.place not in {pair[side] for pair in pairs}]
            for side, fields in (("source", sources), ("target", targets))
        }
    return {"result": result}


def _is_pair(offered: Any) -> bool:
    if not isinstance(offered, Mapping) or not all(isinstance(offered.get(side), str) for side in ("source", "target")):
        return False
    confidence = material.number(offered.get("confidence"))
    return confidence is not None and 0 <= confidence <= 1


def _pairs(
    sources: Sequence[Field], targets: Sequence[Field], offered: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the fields of the mapping in the targets' order: each field of both schemas at most once, the surest."""
    free = {source.place for source in sources}
    known = {target.place: target.type for target in targets}
    found: dict[str, dict[str, Any]] = {}
    for each in sorted(offered, key=lambda each: -each["confidence"]):
        source, target = each["source"], each["target"]
        if source in free and target in known and target not in found:
            free.remove(source)
            typed = {"type": known[target]} if known[target] else {}
            basis = {"basis": each["basis"][:256]} if isinstance(each.get("basis"), str) else {}
            found[target] = {"source": source, "target": target, **typed, "confidence": each["confidence"], **basis}
    return [found[place] for place in known if place in found]


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

    :raises agtphost.errors.Refusal: 422 for anything else.
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

    :raises agtphost.errors.Refusal: 422 for a record that is not an object, or has a value that is not of the target's
        type.
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

    :raises agtphost.errors.Refusal: 422 where it cannot.
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
