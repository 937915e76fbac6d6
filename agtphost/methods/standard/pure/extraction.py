"""
EXTRACT: data that follows the caller's schema, with a confidence for each field (methods v01 section 4.1).

What a text says is a provider's to read. The host checks the schema before, and afterwards that the data follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from agtphost.contract.schemas import TooCostly
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material
from agtphost.methods.standard.pure.transform import callers_schema
from agtphost.vocabulary.reasons import Reason


def check(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Check a call of EXTRACT, and the provider's result where there is one.

    :param job: ``call``: its parameters; ``found``: the result, with ``data`` and a ``confidence`` for each field,
        by the field's name or by places in it such as ``customer.name``.
    :return: ``result`` with the fields of the schema that reach ``confidence_threshold`` and follow it, the others in
        ``not_found``, and how many were ``withheld``; or the ``fault`` of the provider.
    :raises Refusal: 422 for a call with parameters of another form, and where a field that the schema requires is
        not found.
    """
    call = job["call"]
    if isinstance(material.require(call, "source"), str):
        material.text(call, "source")
    schema = material.require(call, "schema")
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise parameters.invalid(
            "schema",
            "schema is not that of an object with properties.",
            'Send {"type": "object", "properties": {...}}.',
        )
    compiled, threshold = callers_schema(schema, "schema"), material.share(call, "confidence_threshold", 0.0)
    if "found" not in job:
        return {}
    data, confidence = job["found"].get("data"), job["found"].get("confidence")
    fault = _find_fault(data, confidence)
    if fault:
        return {"fault": fault}
    data = deepcopy({name: value for name, value in data.items() if name in schema["properties"]})
    weak = [place for place, share in confidence.items() if share < threshold and _remove(data, place)]
    try:
        faults = [] if compiled.is_valid(data) else compiled.faults(data)
        # A value that was found and breaks its schema was not what was looked for.
        wrong = {_first_name(str(each["path"])) for each in faults if str(each["path"]).count("/")} & data.keys()
        for name in wrong:
            del data[name]
        if faults and not compiled.is_valid(data):
            raise Refusal(
                Reason.INVALID_PARAMETER,
                "The source lacks values that the schema requires.",
                remedy="Send a source that has them, or require less.",
                details={"parameter": "source", "faults": compiled.faults(data), "found": data},
            )
    except TooCostly as error:
        raise Refusal(error.reason) from None
    kept = {place: share for place, share in confidence.items() if _find_holder(data, place) is not None}
    missing = [name for name in schema["properties"] if name not in data]
    result = {"data": data, "confidence": kept, "not_found": list(dict.fromkeys([*missing, *weak]))}
    return {"result": result, "withheld": len({*weak, *wrong, *(job["found"]["data"].keys() - schema["properties"])})}


def _find_fault(data: Any, confidence: Any) -> str:
    """Return why a provider's data and confidence are none; empty if they are."""
    if not isinstance(data, Mapping) or not isinstance(confidence, Mapping):
        return "its result has no data and confidence that are objects"
    shares = [material.number(share) for share in confidence.values()]
    if not all(share is not None and 0 <= share <= 1 for share in shares):
        return "its result has a confidence that is not a number from 0 to 1"
    unsaid = next((name for name, value in data.items() if not _is_sure(value, str(name), confidence)), None)
    return "" if unsaid is None else f"its result has no confidence for {str(unsaid)[:64]!r}"


def _is_sure(value: Any, place: str, confidence: Mapping[str, Any]) -> bool:
    """Return whether a value has a confidence, or is an object each member of which has one."""
    if place in confidence:
        return True
    members = value.items() if isinstance(value, Mapping) else ()
    return bool(members) and all(_is_sure(each, f"{place}.{name}", confidence) for name, each in members)


def _first_name(pointer: str) -> str:
    """Return the first name of a JSON pointer (RFC 6901 section 4)."""
    return pointer.split("/")[1].replace("~1", "/").replace("~0", "~")


def _find_holder(data: dict[str, Any], place: str) -> tuple[dict[str, Any], str] | None:
    """
    Return the object that a place is in and its name there; None if nothing is there.

    An element of a list is the whole list: without it, the places of the others would be wrong.
    """
    if place in data:
        return data, place
    holder, name = data, place
    value: Any = data
    for each in place.split("."):
        if isinstance(value, dict) and each in value:
            holder, name, value = value, each, value[each]
        elif isinstance(value, list) and each.isdecimal() and len(each) < 9 and int(each) < len(value):
            value = value[int(each)]
        else:
            return None
    return holder, name


def _remove(data: dict[str, Any], place: str) -> bool:
    """Remove what is at a place; return whether anything was."""
    found = _find_holder(data, place)
    if found is not None:
        del found[0][found[1]]
    return found is not None
