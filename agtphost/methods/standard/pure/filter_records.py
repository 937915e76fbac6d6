"""FILTER: the records of a dataset that follow criteria, and no others (methods v01 section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import criteria, formats, material, queries
from agtphost.methods.standard.pure.comparisons import Comparisons

OUTPUTS = ("json", "jsonl", "csv", "yaml", "indexes")


def filter_records(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of FILTER.

    :param call: ``data``, a list, or a text of JSON lines or CSV; ``criteria``, an object or JMESPath of one record;
        ``output_format``.
    :raises agtphost.errors.Refusal: 422 for what is none of these.
    """
    records = formats.records(call, "data")
    wanted = material.require(call, "criteria")
    form = parameters.choice(call, "output_format", OUTPUTS, "json")
    comparisons = Comparisons()
    holds = (
        queries.predicate(wanted, "criteria", comparisons)
        if isinstance(wanted, str)
        else criteria.compile_criteria(wanted, comparisons=comparisons)
    )
    found = [index for index, record in enumerate(records) if holds(record)]
    if form == "csv" and isinstance(data := call["data"], str) and formats.guess_format(data) == "csv":
        records = formats.read(data, "csv", "data")  # Every cell as it is written: 1.50, not 1.5.
    result: dict[str, Any] = {"count": len(found), "of": len(records), "output_format": form}
    result["data"] = found if form == "indexes" else formats.write([records[index] for index in found], form, "data")
    if warnings := comparisons.warnings():
        result["warnings"] = warnings
    return result
