"""Definitions that endpoints share: one file beside them, and complete schemas for everybody who reads one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.definitions import DefinitionFile, DefinitionsError, write_definitions
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import load_endpoints, read_endpoints
from agtphost.contract.openapi import shared_definitions
from agtphost.contract.openapi.importer import Imported, import_openapi
from agtphost.contract.openapi.shared_definitions import file_name, share_definitions
from agtphost.errors import Problem
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.tomltext import write_toml
from tests.contract.declarations import SOUND
from tests.rows import each_row

CATALOG = Catalog.load()
BODIES: dict[str, Any] = {
    "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"$ref": "#/$defs/le~1af"}}},
    "le/af": {"type": "string"},
    "other": {"type": "integer"},
}


def load(folder: Path) -> tuple[list[Endpoint], list[Problem]]:
    return load_endpoints(folder, Rules(catalog=CATALOG))


def declared(folder: Path, schema: str, definitions: str = "shop.definitions.json") -> None:
    """A sound endpoint with another output schema, which names a file of definitions."""
    text = SOUND[: SOUND.index("[output_schema]")] + f"[output_schema]\n{schema}\n"
    (folder / "book.toml").write_text(f'definitions = "{definitions}"\n{text}')


def test_a_schema_has_the_definitions_that_it_leads_to(tmp_path: Path) -> None:
    """Those of the file and no others, in order of name; what the schema has itself counts."""
    (tmp_path / "shop.definitions.json").write_text(write_definitions(BODIES))
    declared(tmp_path, 'type = "object"\nproperties = { a = { "$ref" = "#/$defs/tree" } }')
    (endpoint,), problems = load(tmp_path)
    assert problems == []
    schema = endpoint.output_schema.schema
    assert schema["$defs"] == {"le/af": BODIES["le/af"], "tree": BODIES["tree"]} and list(schema["$defs"]) == [
        "le/af",
        "tree",
    ]
    assert endpoint.projection()["output_schema"] == schema
    declared(tmp_path, 'properties = { a = { "$ref" = "#/$defs/tree" } }\n"$defs" = { "le/af" = { type = "null" } }')
    (endpoint,), problems = load(tmp_path)
    assert endpoint.output_schema.schema["$defs"] == {"le/af": {"type": "null"}, "tree": BODIES["tree"]}


def test_a_faulty_definition_is_named_with_its_line(tmp_path: Path) -> None:
    """The problem stands at the endpoint's schema and says where the definition is."""
    bodies = {**BODIES, "le/af": {"type": "string", "minLength": "1"}}
    (tmp_path / "shop.definitions.json").write_text(write_definitions(bodies))
    declared(tmp_path, 'properties = { a = { "$ref" = "#/$defs/tree" } }')
    found, (problem,) = load(tmp_path)
    assert found == [] and problem.file.endswith("book.toml") and problem.line
    assert "output_schema /$defs/le~1af/minLength" in problem.message
    assert problem.message.endswith(", at shop.definitions.json:2")


@each_row(
    ("content", "why"),
    [
        (None, "cannot be read: it does not exist"),
        ("[1", "is not JSON"),
        ("{}", "has no $defs"),
        ('{"$defs": []}', "has no $defs"),
        ('{"$defs": {"a": {}, "a": {}}}', "occurs twice"),
    ],
)
def test_a_file_that_is_none_is_a_problem(tmp_path: Path, content: str | None, why: str) -> None:
    """It is told at the key that names it, with what to do."""
    if content is not None:
        (tmp_path / "shop.definitions.json").write_text(content)
    declared(tmp_path, 'properties = { a = { "$ref" = "#/$defs/tree" } }')
    for name in ("chair", "desk"):
        (tmp_path / f"{name}.toml").write_text((tmp_path / "book.toml").read_text().replace("/rooms", f"/{name}s"))
    _, (first,) = load(tmp_path)
    assert first.message.endswith("; 2 other endpoints name it too") and first.file.endswith("book.toml")
    assert first.line == 1 and first.message.startswith("BOOK /rooms/{room_id}: definitions: shop.definitions.json ")
    assert why in first.message and first.hint


def test_a_text_from_elsewhere_names_no_file(tmp_path: Path) -> None:
    """What a caller sends to be checked reads nothing of the host's disk."""
    (tmp_path / "shop.definitions.json").write_text(write_definitions(BODIES))
    declared(tmp_path, 'type = "object"', str(tmp_path / "shop.definitions.json"))
    found, (problem,) = read_endpoints((tmp_path / "book.toml").read_text(), "target", Rules(catalog=CATALOG))
    assert found == [] and "this text is not in a file" in problem.message


def test_what_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of definitions has a bound."""
    monkeypatch.setattr("agtphost.contract.definitions.MAX_OCTETS", 100)
    file = tmp_path / "a.json"
    file.write_text(write_definitions({"a": {"description": "x" * 100}}))
    with pytest.raises(DefinitionsError, match="more than 100 octets"):
        DefinitionFile.read(file)


# The importer


def shop(operations: int) -> Imported:
    """An import in which each operation answers a tree of thirty definitions."""
    schemas: dict[str, Any] = {
        f"Part{n}": {
            "type": "object",
            "description": f"Part {n} of the shop. " * 8,
            "properties": {"next": {"$ref": f"#/components/schemas/Part{(n + 1) % 30}"}, "name": {"type": "string"}},
        }
        for n in range(30)
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Part0"}}}
    answers = {"200": {"description": "It.", "content": content}}
    paths = {f"/things{n}": {"get": {"summary": "Get it.", "responses": answers}} for n in range(operations)}
    document = {"openapi": "3.0.3", "info": {"title": "The Shop", "version": "1"}, "paths": paths}
    return import_openapi({**document, "components": {"schemas": schemas}}, CATALOG)


def written(folder: Path, imported: Imported, definitions: dict[str, str]) -> dict[str, Any]:
    """What the host publishes of an import whose files were all confirmed."""
    folder.mkdir()
    for endpoint in imported.endpoints:
        (folder / endpoint.file.removesuffix(".review")).write_text(endpoint.text("a document"))
    for name, text in definitions.items():
        (folder / name).write_text(text)
    endpoints, problems = load(folder)
    assert problems == []
    return {endpoint.name: endpoint.projection() for endpoint in endpoints}


def test_what_repeats_is_written_once(tmp_path: Path) -> None:
    """The endpoints are those of files that are complete by themselves, in a tenth of the octets."""
    imported = shop(40)
    name = file_name(imported, "")
    assert (
        name == "the-shop-1.definitions.json"
        and file_name(imported, "/Vendors/shop") == "vendors-shop.definitions.json"
    )
    shared, text = share_definitions(imported, name)
    assert len(json.loads(text)["$defs"]) == 30 and text.count("\n") == 32
    whole, short = (sum(len(write_toml(each.table)) for each in some.endpoints) for some in (imported, shared))
    assert short < whole / 10
    assert written(tmp_path / "short", shared, {name: text}) == written(tmp_path / "whole", imported, {})
    assert all(each.table["definitions"] == name for each in shared.endpoints)


def test_a_small_import_stays_complete() -> None:
    """Where little repeats, each file is complete by itself, and there is no other."""
    imported = shop(3)
    assert share_definitions(imported, "a.definitions.json") == (imported, "")


def test_what_differs_stays_with_its_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition that one endpoint has in another form, as where it was left open, is that endpoint's own."""
    monkeypatch.setattr(shared_definitions, "LEAST", 1)
    imported = shop(4)
    first = imported.endpoints[0]
    schema = first.table["output_schema"]
    cut = {**schema, "$defs": {"Part1": schema["$defs"]["Part1"], "Part2": {}}}
    changed = replace(
        imported, endpoints=(replace(first, table={**first.table, "output_schema": cut}), *imported.endpoints[1:])
    )
    shared, text = share_definitions(changed, "a.definitions.json")
    assert shared.endpoints[0].table["output_schema"]["$defs"] == {"Part2": {}}
    assert written(tmp_path / "short", shared, {"a.definitions.json": text}) == written(tmp_path / "whole", changed, {})
