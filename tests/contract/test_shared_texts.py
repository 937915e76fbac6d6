"""Equal texts of many endpoints are one object: of imported documents, most of the memory would be repeated words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.contract.schema_pool import MAX_SHARED, SchemaPool
from agtphost.vocabulary.catalog import Catalog

ENDPOINT = """
method = "QUERY"
path = "/item{number}"
description = "Return one of the items of the warehouse."
errors = [
    "upstream_timeout", "upstream_connection_error", "upstream_malformed_response", "upstream_authentication_failed",
    "upstream_error",
]

[input_schema]
type = "object"
additionalProperties = false

[input_schema.properties.place{number}]
type = "string"
description = "The shelf, as it is written on the label."

[output_schema]
type = "object"

[handler]
type = "external_service"
url = "https://warehouse.example.com/items/{number}"
method = "GET"

[semantic]
intent = "Return one of the items of the warehouse."
actor = "agent"
outcome = "The item is returned."
confidence = 0.5
impact = "informational"
is_idempotent = true
capability = "retrieval"
"""


def texts_of(value: Any) -> Iterator[str]:
    """Yield the names and texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def test_equal_texts_of_endpoints_are_one_object(tmp_path: Path) -> None:
    """Of 50 files, each description and each name of a schema's member is in memory once."""
    for number in range(50):
        (tmp_path / f"item{number}.toml").write_text(ENDPOINT.replace("{number}", str(number)))
    endpoints, problems = load_endpoints(tmp_path, Rules(catalog=Catalog.load()))
    assert problems == [] and len(endpoints) == 50
    objects: dict[str, set[int]] = {}
    for endpoint in endpoints:
        for text in (endpoint.description, *texts_of(endpoint.input_schema.schema)):
            objects.setdefault(text, set()).add(id(text))
    assert {text for text, found in objects.items() if len(found) > 1} == set()


def test_a_shared_value_is_equal() -> None:
    """Types and order stay, and what is too deep stays as it is."""
    deep: dict[str, Any] = {"end": 1}
    for _ in range(2 * MAX_SHARED):
        deep = {"a": deep}
    value = {"b": [1, 1.5, True, None, "x", {"y": []}], "a": deep}
    shared = SchemaPool().share_texts(value)
    assert shared == value and list(shared) == ["b", "a"] and shared["b"][2] is True
