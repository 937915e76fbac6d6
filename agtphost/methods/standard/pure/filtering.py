"""FILTER: the records of a dataset that follow criteria, and no others (methods v01 section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import criteria, formats, material, queries

OUTPUTS = ("json", "jsonl", "csv", "yaml", "indexes")


def filtered(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    The result of FILTER.

    :param call: ``data``, a list, or a text of JSON lines or CSV; ``criteria``, an object or JMESPath of one record;
        ``output_format``.
    :raises Refusal: 422 for what is none of these.
    """
    records = formats.records(call, "data")
    wanted = material.given(call, "criteria")
    form = parameters.choice(call, "output_format", OUTPUTS, "json")
    holds = queries.predicate(wanted, "criteria") if isinstance(wanted, str) else criteria.compiled(wanted)
    found = [index for index, record in enumerate(records) if holds(record)]
    result: dict[str, Any] = {"count": len(found), "of": len(records), "output_format": form}
    result["data"] = found if form == "indexes" else formats.written([records[index] for index in found], form, "data")
    return result
