"""Optional parameters of the standard methods make a difference: what they are for is there with them alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.methods.standard.transacting_hosts import Transacting
from tests.rows import each_row

DAYS = [{"time": f"2026-01-{day:02}", "v": day} for day in range(1, 20)]
PAIR = {"source": "telemetry", "destination": "observability"}
TEXT: dict[str, Any] = {"output_type": "text", "source": {"template": "one two"}}
SCHEMAS: dict[str, Any] = {
    "source_schema": {"type": "object", "properties": {"full_name": {}, "colour": {}}},
    "target_schema": {"type": "object", "properties": {"fullName": {}}},
}
FORM = {"type": "object", "properties": {"when": {"type": "string", "format": "date"}}}
EXTRACTED = {"data": {"when": "2026-05-06"}, "confidence": {"when": 0.9}}
LABELLED = {"items": [{"labels": [{"label": desk, "confidence": 0.4} for desk in ("billing", "it")]}]}
DESKS = {"billing": ["refund"], "it": ["printer"]}


def taking(*names: str) -> dict[str, Any]:
    """The input schema of a provider that takes a threshold too."""
    properties: dict[str, Any] = {name: {} for name in (*names, "confidence_threshold")}
    return {"type": "object", "additionalProperties": False, "properties": properties}


@pytest.fixture(scope="module")
def host() -> Iterator[Transacting]:
    made = Transacting()
    made.agent("shelf", hosted=True)
    made.endpoint("CLASSIFY", "/", lambda context: LABELLED, input_schema=taking("items", "taxonomy", "multi_label"))
    made.endpoint("EXTRACT", "/", lambda context: EXTRACTED, input_schema=taking("source", "schema"))
    made.endpoint("MAP", "/semantic", lambda context: {"fields": []}, {"source": {}, "target": {}})
    made.endpoint("BOOK", "/dear", lambda context: {}, cost="USD=5, EUR=4")
    yield made
    made.close()


@each_row(
    ("method", "given", "more", "there"),
    [
        ("FIND", {"criteria": "*", "namespace": "agents", "limit": 1}, {"limit": 2}, '"rank": 2'),
        ("ANALYZE", {"target": DAYS}, {"time_range": "2026-01-01/2026-01-09"}, '"rows": 9'),
        ("ANALYZE", {"target": [1, 2] * 4 + [9], "analysis_type": "anomaly"}, {"sensitivity": 0}, '"findings": []'),
        ("EXTRACT", {"source": "On 2026-05-06.", "schema": FORM}, {"confidence_threshold": 1}, '"data": {}'),
        ("FILTER", {"data": [{"a": 1}], "criteria": {"a": 1}}, {"output_format": "csv"}, '"a\\n1\\n"'),
        ("TRANSFORM", {"source": "a: 1", "target_format": "json"}, {"source_format": "csv"}, '"csv"'),
        ("CLASSIFY", {"items": ["refund"], "taxonomy": DESKS}, {"confidence_threshold": 1}, '"labels": []'),
        ("CLASSIFY", {"items": ["refund"], "taxonomy": DESKS}, {"multi_label": True}, '"label": "it"'),
        ("CALCULATE", {"expression": {"op": "divide", "args": [1, 3]}, "inputs": {}}, {"precision": 2}, '"0.33"'),
        ("CALCULATE", {"expression": {"op": "divide", "args": [1, 3]}, "inputs": {}}, {"currency": "EUR"}, '"EUR"'),
        ("GENERATE", TEXT, {"length": 1}, '["length"]'),
        ("GENERATE", TEXT, {"style": "formal", "format": "plain"}, '["format", "style"]'),
        ("MAP", SCHEMAS, {"strategy": "exact"}, '"strategy": "exact"'),
        ("MAP", SCHEMAS, {"unmapped_policy": "preserve"}, '"preserve": true'),
        (
            "QUOTE",
            {"method": "BOOK", "path": "/dear", "parameters": {}},
            {"budget_units": ["JPY"]},
            '"parameter": "budget_units"',
        ),
        ("SIGN", {"payload": 1}, {"algorithm": "RS256"}, '"parameter": "algorithm"'),
        ("LOG", {"event_type": "a", "data": 1}, {"severity": "critical"}, '"severity": "critical"'),
        ("LINK", {"source": "desk", "target": "desk", "relationship": "r"}, {"metadata": {"a": 1}}, '"metadata"'),
        ("CONNECT", PAIR, {"channel_type": "polling"}, '"channel_type": "polling"'),
        ("CONNECT", PAIR, {"config": {"every": 7}}, '"every": 7'),
        ("IMPORT", {"target": "rooms", "source": "a,b\n1,2\n"}, {"format": "jsonl"}, '"parameter": "source"'),
    ],
)
def test_it_makes_a_difference(
    host: Transacting, method: str, given: dict[str, Any], more: dict[str, Any], there: str
) -> None:
    """METH-005 to METH-041: a host that left the parameter out of the call would answer otherwise."""
    assert there not in _told(host, method, given)
    if method == "LINK":
        given = {**given, "relationship": "s"}
    assert there in _told(host, method, {**given, **more})


def _told(host: Transacting, method: str, given: dict[str, Any]) -> str:
    answer = host.call(method, "/", given, caller=host.writer)
    if method == "CONNECT":
        host.done("CANCEL", target_id=answer.result["connection_id"])
    return json.dumps(answer.document)


def test_what_is_kept_with_an_item_is_found_again(host: Transacting) -> None:
    """METH-025, METH-029: the reason of a TRANSFER, and the format of what was published."""
    made = host.done("REGISTER", entity_type="rooms", data={"id": "r-9"})["resource_id"]
    parties = {"from_principal": host.writer.agent_id, "to_principal": host.archive.agent_id}
    chain = host.done("TRANSFER", resource_id=made, **parties, reason={"sold": True})["ownership_chain"]
    assert [link.get("reason") for link in chain] == [None, {"sold": True}]
    now = host.done("PUBLISH", channel="knowledge", content={}, format="application/json")["resource_id"]
    item = host.core.services.evidence.held.get("collection-item", now)
    assert item is not None and item.value["format"] == "application/json"
