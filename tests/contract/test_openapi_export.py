"""Manifests become OpenAPI 3.1 documents that say what they are derived from, and what they lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import re2

from agtphost.config.policies import SEED_ALIASES
from agtphost.contract.openapi.components import Components
from agtphost.contract.openapi.export import ExportResult, export_openapi
from agtphost.contract.openapi.importer import import_openapi
from agtphost.vocabulary.catalog import Catalog
from tests.contract.test_manifest_validation import endpoint, sound
from tests.contract.test_openapi_import import SHOP, large, read_document
from tests.rows import each_row

LINK = "agtp://agents.acme.com/"
VALUES = {"": {"$ref": "#/components/schemas/JsonValue"}}
HTTP = {"get", "put", "post", "delete", "patch"}


def exported(*endpoints: dict[str, Any], **options: Any) -> ExportResult:
    manifest = {**sound(), "endpoints": list(endpoints)}
    manifest["policies"] = {**manifest["policies"], "methods": {"aliases": dict(SEED_ALIASES)}}
    return export_openapi(manifest, link=LINK, **options)


def structure_faults(document: Any) -> Iterator[str]:
    """What breaks the rules of OpenAPI 3.1 that an export could break."""
    if document.get("openapi") != "3.1.0" or not {"title", "version"} <= set(document["info"]):
        yield "head"
    shapes: set[str] = set()
    ids: set[str] = set()
    for path, item in document["paths"].items():
        shape = re.sub(r"\{[^}]*\}", "{}", path)
        if not path.startswith("/") or shape in shapes:
            yield f"{path}: not a path of its own"
        shapes.add(shape)
        for http, operation in item.items():
            where = f"{http} {path}"
            if http not in HTTP:
                yield f"{where}: no HTTP method"
            if operation["operationId"] in ids:
                yield f"{where}: operationId is not unique"
            ids.add(operation["operationId"])
            entries = operation.get("parameters", [])
            names = [(entry["name"], entry["in"]) for entry in entries]
            if len(set(names)) < len(names):
                yield f"{where}: a parameter stands twice"
            in_path = {name for name, place in names if place == "path"}
            if in_path != set(re.findall(r"\{([^}]*)\}", path)):
                yield f"{where}: path parameters differ"
            if any(entry["in"] == "path" and entry["required"] is not True for entry in entries):
                yield f"{where}: an optional path parameter"
            if not operation["responses"] or any("description" not in r for r in operation["responses"].values()):
                yield f"{where}: responses"
            if http == "get" and "requestBody" in operation:
                yield f"{where}: GET with a body"
            for asked in operation.get("security", []):
                if not set(asked) <= set(document["components"].get("securitySchemes", {})):
                    yield f"{where}: unknown security scheme"
    yield from reference_faults(document)


def reference_faults(document: Any) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            yield f"{name}: no component name"
        try:
            jsonschema_rs.meta.validate(schema)
        except jsonschema_rs.ValidationError:
            yield f"{name}: no JSON Schema"
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            reference = item.get("$ref")
            if isinstance(reference, str) and not leads_somewhere(document, reference):
                yield f"{reference}: leads nowhere"
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def leads_somewhere(document: Any, reference: str) -> bool:
    here = document
    for token in reference.removeprefix("#/").split("/"):
        if not isinstance(here, dict) or token not in here:
            return False
        here = here[token]
    return True


def informational(**members: Any) -> dict[str, Any]:
    block = {**endpoint()["semantic"], "impact": "informational", "is_idempotent": True}
    return endpoint(**{"method": "QUERY", "semantic": block, **members})


def test_the_document_is_marked_as_derived_and_links_the_manifest() -> None:
    """In ``info``, in words and for machines (API-149)."""
    about = exported(endpoint()).document["info"]
    assert "Derived from an AGTP-API server manifest" in about["description"]
    assert LINK in about["description"]
    assert about["x-agtp-derived"] is True
    assert about["x-agtp-manifest"]["href"] == LINK
    assert about["version"] == "v2"


def test_schemas_pass_through_unchanged() -> None:
    """As components, whole (API-149)."""
    made = exported(endpoint()).document
    assert made["components"]["schemas"]["BOOK_room_input"] == endpoint()["input_schema"]
    assert made["components"]["schemas"]["BOOK_room_output"] == endpoint()["output_schema"]
    body = made["paths"]["/room"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/BOOK_room_input", "patternProperties": VALUES}


def test_references_inside_schemas_lead_to_where_the_schema_is() -> None:
    """``#/$defs/x`` would mean the whole document's."""
    schema = {
        **endpoint()["input_schema"],
        "properties": {"room_id": {"$ref": "#/$defs/id"}},
        "$defs": {"id": {"type": "string", "default": {"$ref": "#/$defs/id"}}},
    }
    made = exported(endpoint(input_schema=schema)).document
    inner = made["components"]["schemas"]["BOOK_room_input"]
    assert inner["properties"]["room_id"]["$ref"] == "#/components/schemas/BOOK_room_input.id"
    assert "$defs" not in inner, "each is a component, which generators of clients ask for"
    definition = made["components"]["schemas"]["BOOK_room_input.id"]
    assert definition["default"] == {"$ref": "#/$defs/id"}, "what is no schema stays as it is"


def test_a_reference_into_a_definition_leads_there() -> None:
    """A place inside of a definition is no component: the definitions are where they were, too."""
    schema = {
        **endpoint()["input_schema"],
        "properties": {"room_id": {"$ref": "#/$defs/room/properties/id"}},
        "$defs": {"room": {"type": "object", "properties": {"id": {"type": "string"}}}},
    }
    schemas = exported(endpoint(input_schema=schema)).document["components"]["schemas"]
    place = "#/components/schemas/BOOK_room_input/$defs/room/properties/id"
    assert schemas["BOOK_room_input"]["properties"]["room_id"]["$ref"] == place
    assert schemas["BOOK_room_input"]["$defs"]["room"]["properties"]["id"] == {"type": "string"}


def test_a_definition_of_several_endpoints_is_one_component() -> None:
    """It is one where it is the same with all that it leads to; where it leads elsewhere, it is another."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "leaf": {"$ref": "#/$defs/leaf"}}}
    leaf, other = {"type": "string", "title": "Leaf"}, {"type": "integer"}
    outputs = [
        {"properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node, "leaf": leaf}},
        {"properties": {"m": {"$ref": "#/$defs/node"}}, "$defs": {"leaf": leaf, "node": node}},
        {"properties": {"o": {"$ref": "#/$defs/node"}}, "$defs": {"leaf": other, "node": node}},
        {"properties": {"l": {"$ref": "#/$defs/leaf"}}, "$defs": {"leaf": leaf, "node": node}},
    ]
    paths = [f"/p{number}" for number in range(len(outputs))]
    made = exported(*(endpoint(path=path, output_schema=each) for path, each in zip(paths, outputs, strict=True)))
    schemas = made.document["components"]["schemas"]
    first = "#/components/schemas/BOOK_p0_output"
    assert schemas["BOOK_p0_output.node"] == {
        "type": "object",
        "properties": {"next": {"$ref": f"{first}.node"}, "leaf": {"$ref": f"{first}.leaf"}},
    }
    assert schemas["BOOK_p1_output"] == {"properties": {"m": {"$ref": f"{first}.node"}}}
    assert schemas["BOOK_p3_output"] == {"properties": {"l": {"$ref": f"{first}.leaf"}}}
    third = "#/components/schemas/BOOK_p2_output"
    assert schemas["BOOK_p2_output"] == {"properties": {"o": {"$ref": f"{third}.node"}}}
    assert schemas["BOOK_p2_output.node"]["properties"]["leaf"] == {"$ref": f"{third}.leaf"}
    assert schemas["BOOK_p2_output.leaf"] == other and len([name for name in schemas if "." in name]) == 4
    assert outputs[0]["$defs"]["node"] is node and node["properties"]["next"] == {"$ref": "#/$defs/node"}


def test_references_to_addresses_and_anchors_are_written_as_plain_ones() -> None:
    """In a document with many schemas an anchor of one would be looked for nowhere."""
    schema = {
        **endpoint()["input_schema"],
        "properties": {"room_id": {"$ref": "#id"}},
        "$defs": {"id": {"$anchor": "id", "type": "string"}},
    }
    schemas = exported(endpoint(input_schema=schema)).document["components"]["schemas"]
    assert schemas["BOOK_room_input"]["properties"]["room_id"]["$ref"] == "#/components/schemas/BOOK_room_input.id"
    assert schemas["BOOK_room_input.id"] == {"type": "string"}


@each_row(("method", "http"), [("BOOK", "post"), ("REPLACE", "put"), ("MODIFY", "patch"), ("REMOVE", "delete")])
def test_methods_become_http_methods(method: str, http: str) -> None:
    """Reads are GET, the replacements of HTTP's own verbs these verbs, all else POST (AGTP-API section 14.2)."""
    assert list(exported(endpoint(method=method)).document["paths"]["/room"]) == [http]
    read = exported(informational()).document["paths"]["/room"]["get"]
    told = [(entry["name"], entry["in"], entry["schema"].get("enum")) for entry in read["parameters"]]
    assert told == [("room_id", "query", None), *named("QUERY")]
    fetched = exported(informational(method="FETCH")).document["paths"]["/room"]["get"]
    assert [entry["in"] for entry in fetched["parameters"]] == ["query"], "GET is FETCH by itself"


def named(*methods: str) -> list[tuple[str, str, list[str]]]:
    """The fields that say which method is meant (AGIS v01 section 6)."""
    return [("X-AGIS-Method", "header", list(methods)), ("X-AGIS-Grammar", "header", ["AGIS/1.0"])]


def test_clashes_are_resolved_and_reported() -> None:
    """Several methods on a path, and templates that differ in names alone: nothing is said to be where it is not."""
    schema = {**endpoint()["input_schema"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    once = {**endpoint()["semantic"], "is_idempotent": False}
    made = exported(
        informational(),
        informational(method="LIST"),
        endpoint(semantic=once),
        endpoint(method="RESERVE", semantic=once),
        endpoint(path="/x/{a}", input_schema=schema),
        endpoint(method="CANCEL", path="/x/{b}", input_schema=schema, semantic=once),
    )
    paths = made.document["paths"]
    assert {path: list(item) for path, item in paths.items()} == {
        "/room": ["get", "patch", "post"],
        "/x/{a}": ["patch", "post"],
    }
    told = {verb: item["parameters"][-2]["schema"]["enum"] for verb, item in paths["/room"].items()}
    assert told == {"get": ["QUERY"], "post": ["LIST", "RESERVE"], "patch": ["BOOK"]}
    bodies = paths["/room"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    component = "#/components/schemas/{}_room_input".format
    either = [{"$ref": component(name)} for name in ("LIST", "RESERVE")]
    assert bodies == {"anyOf": either, "patternProperties": VALUES}
    assert any("LIST /room: POST" in loss for loss in made.losses)
    assert any("BOOK /room: PATCH" in loss for loss in made.losses)
    assert any("RESERVE /room: shares" in loss for loss in made.losses)
    assert any("'b' is named 'a'" in loss for loss in made.losses)


ADDRESSED = {
    "": False,
    ".": False,
    "..": False,
    "a\u0083": False,
    "a\u2028": False,
    "\n": False,
    "...": True,
    ".a": True,
    "..b/": True,
}
"""Texts of a path parameter, by whether a host takes them."""


@each_row("text", ADDRESSED)
def test_texts_in_an_address_are_as_strict_as_the_host(text: str) -> None:
    """A generated client learns from the pattern what would be 460 or 400."""
    text_schema = {"type": "object", "properties": {"isbn": {"type": "string"}, "more": {"type": "string"}}}
    read = informational(method="FETCH", path="/books/{isbn}", input_schema=text_schema)
    [of_path, of_query] = exported(read).document["paths"]["/books/{isbn}"]["get"]["parameters"][:2]
    assert (of_path["name"], of_query["name"]) == ("isbn", "more")
    for each in (of_path, of_query):
        re2.compile(each["schema"]["pattern"])  # An import of the document would otherwise lose it.
    assert jsonschema_rs.is_valid(of_path["schema"], text) == ADDRESSED[text]
    assert jsonschema_rs.is_valid(of_query["schema"], text) == (text in ("", ".", "..") or ADDRESSED[text])


EXACT = 2**53
BOUNDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an integer": ({"type": "integer"}, {"minimum": -EXACT, "maximum": EXACT}),
    "a number": ({"type": "number"}, {"minimum": -EXACT, "maximum": EXACT}),
    "one of several types": ({"type": ["integer", "null"]}, {"minimum": -EXACT, "maximum": EXACT}),
    "closer bounds": ({"type": "integer", "minimum": 0, "exclusiveMaximum": 9}, {"minimum": 0, "exclusiveMaximum": 9}),
    "wider bounds": (
        {"type": "integer", "exclusiveMinimum": -(2.0**63), "maximum": 2.0**63},
        {"minimum": -EXACT, "maximum": EXACT},
    ),
    "named values": ({"type": "integer", "enum": [1, 2]}, {"enum": [1, 2]}),
    "a text": ({"type": "string"}, {}),
}


@each_row("schema, bounds", BOUNDS.values(), ids=BOUNDS)
def test_numbers_that_a_client_sends_are_those_that_the_host_reads(
    schema: dict[str, Any], bounds: dict[str, Any]
) -> None:
    """A larger integer is refused in every body, so no document permits it; what the host answers has no bound."""
    properties = {"n": schema, "list": {"type": "array", "items": schema}, "named": {"$ref": "#/$defs/named"}}
    whole = {"type": "object", "additionalProperties": False, "properties": properties, "$defs": {"named": schema}}
    document = exported(endpoint(method="BOOK", input_schema=whole, output_schema=whole)).document
    for part, expected in (("input", {"type": schema["type"], **bounds}), ("output", schema)):
        found = document["components"]["schemas"][f"BOOK_room_{part}"]["properties"]
        named = document["components"]["schemas"][found["named"]["$ref"].rpartition("/")[2]]
        assert found["n"] == found["list"]["items"] == named == expected


OPEN = {"type": "object", "properties": {"a": {"type": "string"}, "free": {}, "rows": {"type": "array"}}}
CLOSED = {**OPEN, "additionalProperties": False}
BODIES: dict[str, tuple[dict[str, Any], bool]] = {
    "a declared member": ({"a": "x"}, True),
    "a declared member of another type": ({"a": 1}, False),
    "any value": ({"free": EXACT}, True),
    "any value, too large": ({"free": EXACT + 1}, False),
    "an item, too small": ({"rows": [[-EXACT - 1]]}, False),
    "a value deep inside": ({"free": {"deep": [{"n": -EXACT - 1}]}}, False),
    "values of all types": ({"free": [None, True, "x", 1.5, {"n": [EXACT]}]}, True),
}
UNDECLARED = {"a fit value": ({"b": {"n": [EXACT]}}, True), "a value too large": ({"b": {"n": [EXACT + 1]}}, False)}


@each_row("value, valid", [*BODIES.values(), *UNDECLARED.values()], ids=[*BODIES, *UNDECLARED])
def test_integers_that_no_schema_declares_are_those_that_the_host_reads(value: dict[str, Any], valid: bool) -> None:
    """Members of a body that are open or undeclared have bounds too; what is closed stays closed."""
    for path, schema in (("/room", OPEN), ("/room", CLOSED), ("/room/{id}", OPEN), ("/room/{id}", CLOSED)):
        properties = {**schema["properties"], **({"id": {"type": "string"}} if "{" in path else {})}
        whole = {**schema, "properties": properties}
        document = exported(endpoint(method="BOOK", path=path, input_schema=whole)).document
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        expected = valid and not ("b" in value and schema is CLOSED)
        assert jsonschema_rs.is_valid({**body, "components": document["components"]}, value) is expected, (path, schema)


def test_a_number_that_loses_its_title_is_bounded_too() -> None:
    """One member less and one more are two changes: of a tool's arguments, titles are left out."""
    components = Components()
    components.add("n", {"type": "integer", "minimum": 0, "title": "Count"}, titled=False, sent=True)
    assert components.schemas["n"] == {"type": "integer", "minimum": 0, "maximum": EXACT}


def test_what_http_cannot_say_is_reported_and_kept_beside() -> None:
    """Scopes, the semantic block, built-ins, hosted protocols (API-149)."""
    made = exported(endpoint(min_assurance="certificate"), endpoint(method="QUERY", path="/b", tier="A"))
    assert made.operations == 1
    told = "\n".join(made.losses)
    for word in ("required scopes", "semantic block", "1 endpoints of the protocol", "hosted protocols", "servers"):
        assert word in told
    operation = made.document["paths"]["/room"]["post"]
    assert operation["x-agtp"]["required_scopes"] == ["booking:room"]
    assert operation["security"] == [{"agtpClientCertificate": []}]
    assert operation["deprecated"] is True
    assert exported(endpoint(tier="A"), built_ins=True).operations == 1


def test_exports_follow_the_structure_of_openapi() -> None:
    """The sample, and what a large import would be published as."""
    documents = [exported(endpoint(), informational(), server_url="https://api.acme.com").document]
    for source in (read_document(SHOP.encode()), large(60)):
        tables = [dict(item.table) for item in import_openapi(source, Catalog.load()).endpoints]
        documents.append(exported(*tables).document)
    for document in documents:
        assert list(structure_faults(document)) == []


def test_the_structure_check_finds_faults() -> None:
    """The control: documents that are broken are caught."""
    document: Any = exported(endpoint(), informational(path="/x/{room_id}")).document
    document["paths"]["/room"]["post"]["operationId"] = "QUERY_x_room_id"
    document["paths"]["/x/{other}"] = {}
    document["paths"]["/x/{room_id}"]["get"]["parameters"] = []
    document["components"]["schemas"].pop("BOOK_room_input")
    assert len(list(structure_faults(document))) == 4


HINTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an array of anything": ({"type": "array"}, {"items": {}}),
    "an array or nothing": ({"type": ["array", "null"]}, {"items": {}}),
    "an array with items": ({"type": "array", "items": {"type": "string"}}, {}),
    "a tuple": ({"type": "array", "prefixItems": [{"type": "string"}]}, {}),
    "values that differ in case": (
        {"enum": ["Y", "y", "no"]},
        {"x-enum-varnames": ["VALUE_1_Y", "VALUE_2_Y", "VALUE_3_NO"]},
    ),
    "values that differ in signs": ({"enum": ["a-b", "a_b"]}, {"x-enum-varnames": ["VALUE_1_AB", "VALUE_2_AB"]}),
    "a default of such values": (
        {"enum": ["Y", "y"], "default": "y"},
        {"x-enum-varnames": ["VALUE_1_Y", "VALUE_2_Y"], "default": None},
    ),
    "values that differ": ({"enum": ["yes", "no"]}, {}),
    "values of several types": ({"enum": ["y", "Y", None]}, {}),
}


@each_row("schema, more", HINTS.values(), ids=HINTS)
def test_client_generators_get_what_they_need(schema: dict[str, Any], more: dict[str, Any]) -> None:
    """Members that change nothing of a schema's meaning, in what clients send and in what they get."""
    whole = {"type": "object", "properties": {"n": schema, "deep": {"anyOf": [schema]}}}
    document = exported(endpoint(method="BOOK", input_schema=whole, output_schema=whole)).document
    for part in ("input", "output"):
        found = document["components"]["schemas"][f"BOOK_room_{part}"]["properties"]
        expected = {name: each for name, each in {**schema, **more}.items() if each is not None}
        assert found["n"] == found["deep"]["anyOf"][0] == expected


@each_row("value, expected", {"any value": (True, {}), "no value": (False, {"not": {}})}.values(), ids=("any", "none"))
def test_schemas_that_are_booleans_are_objects_for_client_generators(value: bool, expected: dict[str, Any]) -> None:
    """``openapi-python-client`` takes no boolean in the place of a schema, and schemars of Rust writes ``true``."""
    places = {"n": value, "deep": {"anyOf": [value]}, "list": {"type": "array", "items": value}}
    whole = {"type": "object", "properties": places, "additionalProperties": value}
    document = exported(endpoint(method="BOOK", input_schema=whole, output_schema=whole)).document
    for part in ("input", "output"):
        found = document["components"]["schemas"][f"BOOK_room_{part}"]
        assert found["properties"]["n"] == found["properties"]["deep"]["anyOf"][0] == expected
        assert found["properties"]["list"]["items"] == expected
        assert found["additionalProperties"] is value


@each_row("name", ["const", "default", "enum", "examples", "title", "items", "$schema", "properties", "not"])
def test_a_property_is_a_schema_however_it_is_called(name: str) -> None:
    """The reference of a property that is called like a keyword leads to a component."""
    definitions = {"Mode": {"type": "object", "properties": {"slow": {"type": "boolean"}}}}
    whole = {"type": "object", "properties": {name: {"$ref": "#/$defs/Mode"}}, "$defs": definitions}
    document = exported(endpoint(method="BOOK", input_schema=whole)).document
    found = document["components"]["schemas"]["BOOK_room_input"]["properties"]
    assert found == {name: {"$ref": "#/components/schemas/BOOK_room_input.Mode"}}
