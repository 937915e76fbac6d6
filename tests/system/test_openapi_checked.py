"""What ``agtp openapi import`` writes, ``agtp check`` takes: every file of it, whatever the document is like."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.system.hosting import BIN, sample

TEXT = {"type": "string"}
DONE = {"responses": {"200": {"description": "It is done."}}}


def path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def query_parameter(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": TEXT, **members}


def body(schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema}}}


def fields(*names: str) -> dict[str, Any]:
    return {"type": "object", "required": list(names), "properties": dict.fromkeys(names, TEXT)}


def document(paths: Any, version: str = "3.1.0", **members: Any) -> dict[str, Any]:
    return {"openapi": version, "servers": [{"url": "https://api.example/v1"}], "paths": paths, **members}


def operation(**members: Any) -> dict[str, Any]:
    return {**DONE, **members}


ID_THREE_TIMES = operation(parameters=[path_parameter("id"), query_parameter("id")], requestBody=body(fields("id")))

TRICKY: dict[str, tuple[int, dict[str, Any]]] = {
    "fragments tell operations apart": (
        60,
        document({f"/#Action=Do{number}": {"post": operation(operationId=f"Do{number}")} for number in range(60)}),
    ),
    "fragments and query strings": (
        4,
        document(
            {
                "/a/b#c": {"get": operation()},
                "/a/{id}?x=y#z": {"get": operation(parameters=[path_parameter("id")])},
                "/search?q={q}&fixed=1": {"get": operation(parameters=[query_parameter("q")])},
                "/{id}?expand=ä": {"post": operation(parameters=[path_parameter("id")])},
            }
        ),
    ),
    "one name in path, query and body": (
        3,
        document({"/things/{id}": {"put": ID_THREE_TIMES, "patch": ID_THREE_TIMES, "delete": ID_THREE_TIMES}}),
    ),
    "names that path parameters take": (
        2,
        document(
            {
                "/things/{thing-id}": {
                    "post": operation(
                        parameters=[path_parameter("thing-id"), query_parameter("thing_id")],
                        requestBody=body(fields("thing-id", "thing_id", "query_thing_id", "body_thing_id")),
                    )
                },
                "/{a-b}/{a_b}/{a.b}": {
                    "put": operation(
                        parameters=[path_parameter(name) for name in ("a-b", "a_b", "a.b")],
                        requestBody=body(fields("a-b", "a_b", "a_b_", "a.b")),
                    )
                },
            }
        ),
    ),
    "headers and cookies of names that are taken": (
        1,
        document(
            {
                "/x/{id}": {
                    "post": operation(
                        parameters=[
                            path_parameter("id"),
                            *({"name": "id", "in": place, "schema": TEXT} for place in ("header", "cookie", "heaven")),
                        ],
                        requestBody=body(fields("id")),
                    )
                }
            }
        ),
    ),
    "reserved words and the host's own paths": (
        9,
        document(
            {
                "/agents/{name}": {"get": operation()},
                "/methods": {"get": operation(operationId="discover")},
                "/notifications": {"get": operation(), "post": operation(operationId="notify")},
                "/proposals/{id}": {"get": operation(parameters=[path_parameter("id")])},
                "/mcp/{tool}": {"post": operation(parameters=[path_parameter("tool")])},
                "/query/execute/discover": {"get": operation()},
                "/": {"post": operation(), "get": operation()},
            }
        ),
    ),
    "methods that demand parameters": (
        5,
        document(
            {
                "/jobs/{id}/run": {"post": operation(parameters=[path_parameter("id")])},
                "/jobs": {"post": operation(operationId="runJob", requestBody=body(fields("procedure_id")))},
                "/accounts/{id}/transfer": {"post": operation(operationId="transfer")},
                "/accounts/transfer": {"post": operation(requestBody=body(fields("resource_id", "from", "to")))},
                "/keys/authorize": {"post": operation(operationId="authorizeKey")},
            }
        ),
    ),
    "not ASCII": (
        3,
        document(
            {
                "/straße/{größe}": {"get": operation(summary="Größe zeigen.", parameters=[path_parameter("größe")])},
                "/名前/{名前}/{名}": {"put": operation(requestBody=body(fields("名前", "年齢")))},
                "/a b/%zz/{a b}/<x>/\\": {"delete": operation(tags=["möbel\n"])},
            }
        ),
    ),
    "operation ids": (
        5,
        document(
            {
                "/a": {"get": operation(operationId="same"), "post": operation(operationId="same")},
                "/b": {"get": operation(operationId="same"), "post": operation()},
                "/c": {"get": operation(operationId="")},
            }
        ),
    ),
    "parameters that overlap": (
        4,
        document(
            {
                "/x/{a}": {"get": operation()},
                "/x/{b}": {"get": operation()},
                "/{c}/y": {"get": operation()},
                "/{d}/{d}": {"get": operation()},
            }
        ),
    ),
    "nullable of 3.0": (
        1,
        document(
            {
                "/n": {
                    "post": operation(
                        requestBody=body(
                            {
                                "type": "object",
                                "properties": {
                                    "a": {"type": "string", "nullable": True, "enum": ["x", None]},
                                    "b": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/B"}]},
                                    "c": {"type": "integer", "exclusiveMinimum": True, "minimum": 3},
                                    "d": {"type": "object", "nullable": True, "discriminator": {"propertyName": "x"}},
                                },
                            }
                        )
                    )
                }
            },
            "3.0.3",
            components={"schemas": {"B": {"type": "object", "nullable": True, "properties": {"x": TEXT}}}},
        ),
    ),
    "arrays of types of 3.1": (
        1,
        document(
            {
                "/t/{id}": {
                    "put": operation(
                        parameters=[
                            {"name": "id", "in": "path", "required": True, "schema": {"type": ["integer", "string"]}}
                        ],
                        requestBody=body(
                            {
                                "type": ["object", "null"],
                                "properties": {
                                    "a": {"type": ["string", "null"], "examples": ["x"]},
                                    "b": {"const": 5},
                                    "c": {"type": "array", "prefixItems": [TEXT], "items": False},
                                    "d": {"$ref": "#/components/schemas/D", "description": "beside a reference"},
                                    "e": {"if": {"type": "string"}, "then": {"minLength": 2}},
                                    "f": {"type": "string", "pattern": "^(?=x)(a+)+$"},
                                    "g": {"type": "strange"},
                                },
                            }
                        ),
                    )
                }
            },
            components={"schemas": {"D": {"$defs": {"X": TEXT}, "$ref": "#/components/schemas/D/$defs/X"}}},
        ),
    ),
    "recursion": (
        2,
        document(
            {
                "/trees": {
                    "post": operation(requestBody=body({"$ref": "#/components/schemas/Tree"})),
                    "get": {
                        "responses": {
                            "200": {
                                "description": "A tree.",
                                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}},
                            }
                        }
                    },
                }
            },
            components={
                "schemas": {
                    "Tree": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": TEXT,
                            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                            "self": {"$ref": "#/components/schemas/Self"},
                        },
                    },
                    "Self": {"$ref": "#/components/schemas/Self"},
                }
            },
        ),
    ),
    "large enums": (
        1,
        document(
            {
                "/e": {
                    "post": operation(
                        requestBody=body(
                            {
                                "type": "object",
                                "properties": {
                                    "code": {"type": "string", "enum": [f"value-{number}" for number in range(20_000)]}
                                },
                            }
                        )
                    )
                }
            }
        ),
    ),
    "bodies that are no objects": (
        4,
        document(
            {
                "/l": {"post": operation(requestBody=body({"type": "array", "items": TEXT}))},
                "/m/{body}": {
                    "post": operation(parameters=[query_parameter("body")], requestBody=body({"type": "string"}))
                },
                "/u": {"post": operation(requestBody=body({"type": "string", "format": "binary"}, "image/png"))},
                "/f": {"post": operation(requestBody=body(fields(""), "application/x-www-form-urlencoded"))},
            }
        ),
    ),
    "servers and credentials": (
        5,
        document(
            {
                "/a": {"get": operation(servers=[{"url": "https://{tenant}.example/"}])},
                "/b": {"get": operation(servers=[{"url": "https://user:word@x.example:99999/ä"}])},
                "/c": {"get": operation(servers=[{"url": "ftp://x.example"}], security=[{"own": []}])},
                "/d": {"get": operation(servers=[{"url": "https://x.example/v?key=1#f"}], security=[{"2fa": []}])},
                "/../e/./f": {"get": operation(security=[{"words": []}])},
            },
            components={
                "securitySchemes": {
                    "own": {"type": "apiKey", "in": "header", "name": "Host"},
                    "2fa": {"type": "http", "scheme": "bearer"},
                    "words": {"type": "apiKey", "in": "header", "name": "X" * 65},
                }
            },
        ),
    ),
    "texts": (
        2,
        document(
            {
                "/long": {"get": operation(summary="word " * 900, description="\x00\u2028\x1b[31m" + "x" * 3_000)},
                "/none": {"get": {"responses": {}, "summary": 5, "operationId": 7, "tags": [None]}},
            }
        ),
    ),
}
"""By what is tricky: how many operations there are, and the document."""


def taken(source: Path, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What import says, and what check says of a host with all that import wrote."""
    config = sample(folder)
    endpoints = config.parent / "endpoints"
    done = agtp("openapi", "import", str(source), "--out", str(endpoints), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    summary: dict[str, Any] = json.loads(done.stdout)
    assert len(summary["endpoints"]) == len(list(endpoints.glob("*.toml.review")))
    return summary, problems(config)


def problems(config: Path) -> list[str]:
    """What check says of a host once everything that was imported has been reviewed."""
    written = list((config.parent / "endpoints").glob("*.toml.review"))
    variables = {name for path in written for name in re.findall(r"\$\{(\w+)\}", path.read_text())}
    for path in written:
        path.rename(path.with_suffix(""))
    checked = agtp("check", str(config), "--json", **dict.fromkeys(variables, "secret"))
    found = [problem["message"] for problem in json.loads(checked.stdout)["problems"]]
    assert checked.returncode == (2 if found else 0), checked.stderr[-2000:]
    return found


def agtp(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A large document takes more than the commands of other tests."""
    return forking.run([BIN / "agtp", *words], timeout=500, env={**os.environ, **environ})


@pytest.mark.parametrize("name", TRICKY)
def test_a_tricky_document_is_taken_whole(name: str, tmp_path: Path) -> None:
    """Every operation is an endpoint, none is skipped, and the host would start with all of them."""
    operations, content = TRICKY[name]
    source = tmp_path / "openapi.json"
    source.write_text(json.dumps(content))
    summary, told = taken(source, tmp_path)
    assert told == []
    assert summary["skipped"] == []
    assert len(summary["endpoints"]) == operations
