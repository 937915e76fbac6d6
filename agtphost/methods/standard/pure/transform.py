"""TRANSFORM: data of one format as another, by a mapping where there is one (methods v01 section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.contract.schemas import MAX_FAULTS, CompiledSchema, SchemaError, TooCostly, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import formats, map_fields, material, number_columns
from agtphost.vocabulary.reasons import Reason

_PARTS = 4
"""A caller's schema may have this part of what an operator's may."""


def transform(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of TRANSFORM.

    :param call: ``source``: text of ``source_format``, or JSON; ``target_format``: a format, or a JSON Schema that
        the result (each record of it, where it is a list) then follows; ``mapping`` as MAP gives it.
    :raises Refusal: 422 for anything else, and for data that does not follow the schema.
    """
    source = material.require(call, "source")
    said = parameters.choice(call, "source_format", formats.FORMATS) if call.get("source_format") is not None else ""
    target = material.require(call, "target_format")
    form = "json" if isinstance(target, Mapping) else parameters.choice(call, "target_format", formats.FORMATS)
    found = said or (formats.guess_format(source) if isinstance(source, str) else "json")
    value = formats.read(source, found) if isinstance(source, str) else source
    if isinstance(value, list) and len(value) > material.MAX_ROWS:
        raise parameters.invalid("source", f"source has more than {material.MAX_ROWS} records.", "Send it in parts.")
    if call.get("mapping") is not None:
        plan = map_fields.read(call["mapping"])
        if isinstance(value, list) and len(value) * len(plan.fields) > formats.MAX_CELLS:
            raise parameters.invalid(
                "mapping",
                f"The records times the fields of mapping are more than {formats.MAX_CELLS}.",
                "Send the records in parts, or map fewer fields.",
            )
        value = (
            [map_fields.convert(each, plan) for each in value]
            if isinstance(value, list)
            else map_fields.convert(value, plan)
        )
    elif found == "csv" and form != "csv" and not isinstance(target, Mapping):
        # A mapping or a schema states the types; from CSV to CSV every cell stays as it is written.
        value = number_columns.convert(value)
    if isinstance(target, Mapping):
        value = _following(value, target)
    return {
        "data": formats.write(value, form, "source"),
        "source_format": found,
        "target_format": target if isinstance(target, Mapping) else form,
        "records": len(value) if isinstance(value, list) else 1,
    }


def callers_schema(schema: Any, name: str) -> CompiledSchema:
    """
    Compile a caller's JSON Schema.

    :raises Refusal: 422 for what is none, or too large.
    """
    try:
        return compile_schema(schema, role="output", share=_PARTS)
    except SchemaError as error:
        details = [{"path": fault.pointer, "message": fault.message} for fault in error.faults[:16]]
        raise Refusal(
            Reason.INVALID_PARAMETER,
            f"{name} is not a JSON Schema that this host takes: {error}."[:400],
            remedy="Use JSON Schema 2020-12, and correct the places in faults.",
            details={"parameter": name, "faults": details},
        ) from None


_SPLIT = frozenset({"type", "items", "$defs", "$schema", "title", "description", "minItems", "maxItems"})
"""Keywords of the schema of a list whose members can be checked in parts, with the list's length apart."""

AT_ONCE = 500
"""Members of a long list that are checked in one step: the validator blocks other threads."""


def faults_of(value: Any, schema: CompiledSchema) -> list[dict[str, Any]]:
    """
    Return the schema faults of a value; long lists are checked in parts.

    :raises Refusal: 422 for a value that takes too long to check.
    """
    try:
        whole = schema.schema
        if not isinstance(value, list) or len(value) <= AT_ONCE or not whole.keys() <= _SPLIT:
            return [] if schema.is_valid(value) else schema.faults(value)
        members = callers_schema({k: v for k, v in whole.items() if k not in ("minItems", "maxItems")}, "schema")
        found: list[dict[str, Any]] = []
        least, most = whole.get("minItems", 0), whole.get("maxItems", len(value))
        if not least <= len(value) <= most:
            found.append({"path": "", "message": f"has not {least} to {most} items", "keyword": "maxItems"})
        for start in range(0, len(value), AT_ONCE):
            part = value[start : start + AT_ONCE]
            if len(found) < MAX_FAULTS and not members.is_valid(part):
                found += [{**fault, "path": _shift_path(fault["path"], start)} for fault in members.faults(part)]
        return found[:MAX_FAULTS]
    except TooCostly as error:
        raise Refusal(error.reason) from None


def _shift_path(path: str, start: int) -> str:
    index, slash, rest = path.removeprefix("/").partition("/")
    return f"/{int(index) + start}{slash}{rest}" if index.isdigit() else path


def _following(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value converted to the schema's types, if it then follows the schema."""
    compiled = callers_schema(schema, "target_format")
    each = isinstance(value, list) and schema.get("type", "object") == "object"
    records = [_coerce(one, schema) for one in (value if each else [value])]
    for number, record in enumerate(records):
        if faults := faults_of(record, compiled):
            where = f"Record {number}" if each else "The result"
            raise Refusal(
                Reason.INVALID_PARAMETER,
                f"{where} does not follow the schema.",
                remedy="Correct the data or the mapping.",
                details={"parameter": "source", "record": number, "faults": faults},
            )
    return records if each else records[0]


def _coerce(value: Any, schema: Any) -> Any:
    """Convert a table's texts to numbers and flags of the schema; leave others for the check to report."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if kind == "object" and isinstance(value, Mapping):
        inner = schema.get("properties")
        inner = inner if isinstance(inner, Mapping) else {}
        return {name: _coerce(each, inner.get(name)) for name, each in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_coerce(each, schema.get("items")) for each in value]
    if isinstance(value, str) and kind in ("number", "integer", "boolean"):
        try:
            return map_fields.convert_value(value, kind, "")
        except Refusal:
            return value
    return value
