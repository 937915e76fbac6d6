"""Documents of OpenAPI's operations, and operations of documents (AGIS v01 section 10, AGIS v01 appendix B)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agtphost.agis import validate
from agtphost.agis.document_split import split_document
from agtphost.agis.from_openapi import from_openapi, read_openapi
from agtphost.agis.illustrative import from_illustrative
from agtphost.agis.to_openapi import to_openapi
from agtphost.agis.validation import validate_value
from agtphost.cli.root import agtp
from agtphost.contract.openapi.importer import OpenAPIError
from tests.agis.documents import DOCUMENT, ENDPOINT, changed

PETS = """\
openapi: 3.0.3
info: {title: Pet Store, version: 1.2.0, description: Pets to buy}
servers: [{url: "https://pets.example.com/v1"}]
paths:
  /pets:
    get:
      operationId: listPets
      summary: Lists the pets of the store
      tags: [Pets]
      parameters:
        - {name: limit, in: query, schema: {type: integer, maximum: 100}}
      responses:
        200:
          description: A page of pets
          content: {application/json: {schema: {type: array, items: {$ref: '#/components/schemas/Pet'}}}}
    post:
      operationId: createPet
      summary: Creates a pet
      x-outcome: A pet of that name is in the store
      tags: [Pets]
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}
      responses:
        201: {description: ok}
        401: {description: Not logged in}
        409: {description: There is one of that name}
  /pets/{pet_id}:
    parameters: [{name: pet_id, in: path, required: true, schema: {type: string}}]
    get: {operationId: showPetById, summary: Info for a pet, responses: {200: {description: ok}}}
    delete: {operationId: pets_delete, responses: {204: {description: gone}}}
  /pets/{pet_id}/adopt:
    post: {operationId: adoptPet, responses: {200: {description: ok}}}
  /getReport:
    get: {responses: {200: {description: ok}}}
  /Search_Pets:
    post: {summary: You must search with this, responses: {200: {description: ok}}}
  /{pet_id}:
    put: {operationId: putPet, responses: {200: {description: ok}}}
components:
  schemas:
    Pet: {type: object, required: [name], properties: {name: {type: string}, tag: {type: string}}}
"""


def test_what_becomes_of_operations() -> None:
    """Verbs of operationIds, nouns of paths, and what the draft's table says of the rest."""
    drafted = from_openapi(read_openapi(PETS.encode()))
    verdict = validate(drafted.text("pets").encode())
    assert verdict.conforms, verdict.findings
    found = {f"{each['method']} {each['path']}": each for each in drafted.document["endpoints"]}
    assert [*found] == [
        "LIST /pets",
        "CREATE /pets",
        "SHOW /pets/{pet_id}",
        "REMOVE /pets/{pet_id}",
        "ADOPT /pets/{pet_id}",
        "RETRIEVE /report",
        "SEARCH /pets",
        "REPLACE /pet/{pet_id}",
    ]
    document = drafted.document
    assert (document["service"], document["agtp"], document["version"]) == (
        "Pet Store",
        "agtp://pets.example.com",
        "1.2.0",
    )
    assert document["vocabulary"]["domain"] == "pets"
    create = found["CREATE /pets"]
    assert create["semantic"]["intent"] == "Creates a pet"
    assert create["semantic"]["outcome"] == "A pet of that name is in the store"
    assert create["input"]["required"] == ["name"] and {*create["input"]["properties"]} == {"name", "tag"}
    assert create["errors"] == [
        {"name": "unauthorized", "description": "Not logged in"},
        {"name": "conflict", "description": "There is one of that name"},
    ]
    listed = found["LIST /pets"]
    assert listed["output"]["type"] == "array" and listed["input"]["properties"]["limit"]["maximum"] == 100
    assert found["SEARCH /pets"]["semantic"]["intent"] == "Searches the pets on behalf of the agent"
    told = {(each.place, each.member) for each in drafted.reviews}
    assert ("SEARCH /pets", "intent") in told and ("CREATE /pets", "outcome") not in told
    assert {place for place, member in told if member == "impact_tier"} == {*found}


def validate_openapi(document: Any) -> None:
    """Check a document with a validator that is not ours."""
    from openapi_spec_validator import validate  # Half a second, which each worker that collects this would take.

    validate(document)


def there_and_back(document: Any) -> None:
    """Exported, valid to others, and imported again: the same endpoints."""
    verdict = validate_value(document)
    assert verdict.conforms and verdict.document is not None, verdict.findings
    exported, _ = to_openapi(verdict.document, server_url="https://api.example.com")
    validate_openapi(exported)
    again = from_openapi(read_openapi(json.dumps(exported).encode()))
    assert again.validate().conforms, again.validate().findings
    back = {f"{each['method']} {each['path']}": each for each in again.document["endpoints"]}
    assert {*back} == {each.name for each in verdict.document.endpoints}
    for each in verdict.document.endpoints:
        assert back[each.name]["semantic"] == {"is_idempotent": False, **each.semantic}
        assert back[each.name]["errors"] == each.members["errors"]
    assert again.document["agtp"] == document["agtp"] and again.document["service"] == document["service"]
    given = {name: value for name, value in document["vocabulary"].items() if name != "declared_verbs"}
    assert again.document["vocabulary"].items() >= given.items()


def test_documents_become_openapi_and_come_back() -> None:
    """The draft's own three among them; ``openapi-spec-validator`` finds nothing."""
    there_and_back(DOCUMENT)
    there_and_back(from_openapi(read_openapi(PETS.encode())).document)
    for file in sorted((Path(__file__).parent / "drafts").glob("*.txt")):
        there_and_back(from_illustrative(file.read_bytes()).root)


VERBS = ("Book", "Cancel", "Reserve", "Schedule", "Find", "Verify", "Dispatch")


def test_many_methods_of_one_path_come_back() -> None:
    """However few HTTP has: each with its own statement, contract and errors."""
    listed = [
        {
            **ENDPOINT,
            "method": verb.upper(),
            "semantic": {**ENDPOINT["semantic"], "intent": f"{verb} a room", "mcp_tool_name": f"{verb}_room".lower()},
            "input": {
                "type": "object",
                "required": [verb.lower()],
                "properties": {verb.lower(): {"$ref": "#/schemas/A"}},
            },
            "errors": [f"{verb}_impossible".lower()],
            "required_scopes": [f"rooms:{verb}".lower()],
        }
        for verb in VERBS
    ]
    document = changed(
        ("endpoints", listed),
        ("vocabulary.declared_verbs", [verb.upper() for verb in VERBS]),
        ("schemas", {"A": {"type": "string"}}),
    )
    there_and_back(document)
    verdict = validate_value(document)
    assert verdict.document is not None
    exported, losses = to_openapi(verdict.document)
    assert any("shares POST" in loss for loss in losses)
    again = from_openapi(read_openapi(json.dumps(exported).encode()))
    assert len(again.document["endpoints"]) == len(VERBS)
    for each in again.document["endpoints"]:
        assert each["input"]["required"] == [each["method"].lower()], each
        assert each["required_scopes"] == [f"rooms:{each['method']}".lower()], each
    # What claims to be ours, and is not, is read as anybody's.
    operation = next(each for each in exported["paths"]["/reservation"].values() if isinstance(each["x-agis"], list))
    del operation["x-agis"][0]["input"]
    assert from_openapi(read_openapi(json.dumps(exported).encode())).validate().conforms


def test_what_is_too_large_to_be_read_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output takes one document alone, and files are numbered."""
    split = split_document
    monkeypatch.setattr("agtphost.agis.document_split.split_document", lambda *given: split(*given, 4_000))
    for more in (["--to", "yaml"], ["--to", "json"], ["--json"]):
        done = agis("from-openapi", "-", *more, text=PETS)
        assert done.exit_code == 2 and "Name a file with -o" in done.stderr
    made = json.loads(agis("from-openapi", "-", "-o", str(tmp_path / "pets.agis"), "--json", text=PETS).output)
    assert made["file"] == made["files"][0] == str(tmp_path / "pets-1.agis") and len(made["files"]) > 1


def test_a_value_that_looks_like_a_reference_is_none() -> None:
    """In a default or an enum it is a value, wherever it seems to lead."""
    for odd in ({"$ref": "#"}, {"$ref": "#/components/schemas/Pet"}, {"$ref": "Pet"}):
        for place in ("default", "const", "enum", "examples"):
            schema = {"type": "object", "properties": {"a": {place: [odd] if place in ("enum", "examples") else odd}}}
            body = {"content": {"application/json": {"schema": schema}}}
            operation = {"operationId": "adoptPet", "requestBody": body, "responses": {"200": {"description": "ok"}}}
            document = {"openapi": "3.1.0", "paths": {"/pet": {"post": operation}}}
            assert from_openapi(document).document["endpoints"][0]["path"] == "/pet"


def test_operations_of_one_name_are_told_apart() -> None:
    """By a number at the last noun; a parameter stays one."""
    operation = {"operationId": "showThing", "responses": {"200": {"description": "ok"}}}
    paths = ["/a/{x}/{y}", "/getA/{x}/{y}", "/a/b", "/getA/b", "/show-a/b"]
    drafted = from_openapi({"openapi": "3.1.0", "paths": {path: {"get": operation} for path in paths}})
    assert drafted.validate().conforms, drafted.validate().findings
    assert [each["path"] for each in drafted.document["endpoints"]] == [
        "/a/{x}/{y}",
        "/a-2/{x}/{y}",
        "/a/b",
        "/a/b-2",
        "/a/b-3",
    ]


def test_the_method_is_named_in_a_header() -> None:
    """As the transitional binding has it; HTTP's method is transport, and none of two is lost at one path."""
    document = changed(("vocabulary.namespace", "tables"), ("schemas", {"Id": {"type": "string"}}))
    document["endpoints"][0]["input"]["properties"]["id"] = {"$ref": "#/schemas/Id"}
    document["endpoints"].append({**document["endpoints"][0], "method": "Cancel"})
    document["endpoints"][1]["semantic"] = {
        **document["endpoints"][0]["semantic"],
        "intent": "Cancels a table",
        "outcome": "No reservation exists",
    }
    document["vocabulary"]["declared_verbs"].append("CANCEL")
    verdict = validate_value(document)
    assert verdict.conforms and verdict.document is not None, verdict.findings
    exported, losses = to_openapi(verdict.document)
    validate_openapi(exported)
    item = exported["paths"]["/reservation"]
    assert {*item} == {"post", "patch"} and any("PATCH" in loss for loss in losses)
    named = {each["name"]: (each["required"], each["schema"]["enum"]) for each in item["post"]["parameters"]}
    assert named == {
        "X-AGIS-Method": (True, ["BOOK"]),
        "X-AGIS-Grammar": (False, ["AGIS/1.0"]),
        "X-AGIS-Namespace": (False, ["tables"]),
    }
    assert item["post"]["x-outcome"] == "A confirmed reservation exists"
    (error,) = item["post"]["responses"]["422"]["content"]["application/json"]["schema"]["properties"].values()
    assert error["enum"] == ["reservation_unavailable"]


FAULTS = {
    b"[]": "not an object",
    b'{"swagger": "2.0"}': "not OpenAPI 3.0 or 3.1; its version is '2.0'",
    b'{"openapi": "3.1.0", "paths": []}': "paths must be an object",
    b'{"openapi": "3.1.0", "paths": {}}': "no operations",
    b'{"openapi": "3.1.0", "x": ' + b"[" * 40 + b"]" * 40 + b"}": "more than 32 deep",
    b" " * (4 << 20) + b"{}": "octets",
    b"{": "line 1",
    rb'{"openapi": "3.1.0", "paths": {"/\ud800": {"get": {}}}}': "half of a surrogate pair",
    rb'{"openapi": "3.1.0", "info": {"title": "\ud800"}}': "half of a surrogate pair",
}


def test_what_is_no_openapi() -> None:
    """Each is told; nothing is converted."""
    wrong = []
    for octets, said in FAULTS.items():
        try:
            from_openapi(read_openapi(octets))
        except OpenAPIError as error:
            wrong += [] if said in str(error) else [(octets[:40], str(error))]
        else:
            wrong.append((octets[:40], ""))
    assert wrong == []
    operation = {"responses": {"200": {"description": "ok"}}}
    many = {"openapi": "3.1.0", "paths": {f"/thing{number}": {"get": operation} for number in range(5001)}}
    with pytest.raises(OpenAPIError, match="the limit is 5000"):
        from_openapi(many)


def agis(*words: str, text: str | None = None) -> Result:
    """What the command does."""
    return CliRunner().invoke(agtp, ["agis", *words], input=text, prog_name="agtp")


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, pipes, forms and exit statuses."""
    monkeypatch.chdir(tmp_path)
    Path("pets.yaml").write_text(PETS)
    made = agis("from-openapi", "pets.yaml", "--agtp", "agtp://pets.example.org")
    assert made.exit_code == 0 and "# REVIEW source: GET /pets" in made.stdout
    assert 'agtp: "agtp://pets.example.org"' in made.stdout
    assert agis("validate", "-", text=made.stdout).exit_code == 0
    told = json.loads(agis("from-openapi", "-", "--service", "Pets", "--json", text=PETS).output)
    assert told["conforms"] and told["document"]["service"] == "Pets"
    exported = agis("to-openapi", "-", text=made.stdout)
    assert exported.exit_code == 0 and "lost: the HTTP address is unknown" in exported.stderr
    validate_openapi(json.loads(exported.stdout))
    told = json.loads(agis("to-openapi", "-", "--server-url", "https://x.example", "--json", text=made.stdout).output)
    assert told["operations"] == 8 and told["document"]["servers"] == [{"url": "https://x.example"}]
    assert agis("to-openapi", "-", "-o", "out.json", text=made.stdout).exit_code == 0
    assert json.loads(Path("out.json").read_text())["openapi"] == "3.1.0"
    bad = agis("to-openapi", "-", text=json.dumps(changed(("endpoints.0.method", "GET"))))
    assert bad.exit_code == 1 and "AGIS-P3-http-method" in bad.output
    bad = agis("from-openapi", "-", text="{}")
    assert bad.exit_code == 2 and "not OpenAPI" in bad.output
