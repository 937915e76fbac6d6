"""TRANSFORM: data of one format as another, by a mapping where there is one (methods v01 section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.contract.schemas import CompiledSchema, SchemaError, TooCostly, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import formats, mapping, material

_PARTS = 4
"""A caller's schema may have this part of what an operator's may."""


def transformed(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    The result of TRANSFORM.

    :param call: ``source``: text of ``source_format``, or JSON; ``target_format``: a format, or a JSON Schema that
        the result (each record of it, where it is a list) then follows; ``mapping`` as MAP gives it.
    :raises Refusal: 422 for anything else, and for data that does not follow the schema.
    """
    source = material.given(call, "source")
    said = parameters.choice(call, "source_format", formats.FORMATS) if call.get("source_format") is not None else ""
    target = material.given(call, "target_format")
    form = "json" if isinstance(target, Mapping) else parameters.choice(call, "target_format", formats.FORMATS)
    found = said or (formats.guessed(source) if isinstance(source, str) else "json")
    value = formats.read(source, found) if isinstance(source, str) else source
    if isinstance(value, list) and len(value) > material.MAX_ROWS:
        raise parameters.invalid("source", f"source has more than {material.MAX_ROWS} records.", "Send it in parts.")
    if call.get("mapping") is not None:
        plan = mapping.read(call["mapping"])
        value = (
            [mapping.converted(each, plan) for each in value]
            if isinstance(value, list)
            else mapping.converted(value, plan)
        )
    if isinstance(target, Mapping):
        value = _following(value, target)
    return {
        "data": formats.written(value, form, "source"),
        "source_format": found,
        "target_format": target if isinstance(target, Mapping) else form,
        "records": len(value) if isinstance(value, list) else 1,
    }


def callers_schema(schema: Any, name: str) -> CompiledSchema:
    """
    A caller's JSON Schema, compiled.

    :raises Refusal: 422 for what is none, or too large.
    """
    try:
        return compile_schema(schema, role="output", share=_PARTS)
    except SchemaError as error:
        details = [{"path": fault.pointer, "message": fault.message} for fault in error.faults[:16]]
        raise Refusal(
            parameters.invalid(name, "", "").reason,
            f"{name} is not a JSON Schema that this host takes: {error}."[:400],
            remedy="Draft 2020-12 is taken; the faults say where.",
            details={"parameter": name, "faults": details},
        ) from None


def _following(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with the schema's types, if it then follows it."""
    compiled = callers_schema(schema, "target_format")
    each = isinstance(value, list) and schema.get("type", "object") == "object"
    records = [_coerced(one, schema) for one in (value if each else [value])]
    for number, record in enumerate(records):
        try:
            if not compiled.is_valid(record):
                where = f"Record {number}" if each else "The result"
                raise Refusal(
                    parameters.invalid("source", "", "").reason,
                    f"{where} does not follow the schema.",
                    remedy="Correct the data or the mapping.",
                    details={"parameter": "source", "record": number, "faults": compiled.faults(record)},
                )
        except TooCostly as error:
            raise Refusal(error.reason) from None
    return records if each else records[0]


def _coerced(value: Any, schema: Any) -> Any:
    """Texts of a table as the numbers and flags that the schema wants; what cannot be stays, and is found then."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if kind == "object" and isinstance(value, Mapping):
        inner = schema.get("properties")
        inner = inner if isinstance(inner, Mapping) else {}
        return {name: _coerced(each, inner.get(name)) for name, each in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_coerced(each, schema.get("items")) for each in value]
    if isinstance(value, str) and kind in ("number", "integer", "boolean"):
        try:
            return mapping.typed(value, kind, "")
        except Refusal:
            return value
    return value
