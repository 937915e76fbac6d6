"""OpenAPI documents become endpoint declarations that the host would take, and nothing is lost in silence."""

from __future__ import annotations

import copy
import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.openapi.document_text import DocumentTextError, read_document, read_json
from agtphost.contract.openapi.importer import (
    Imported,
    ImportedEndpoint,
    OpenAPIError,
    PrefixError,
    import_openapi,
)
from agtphost.contract.openapi.prose import strip_html
from agtphost.contract.schemas import compile_schema
from agtphost.contract.service import UPSTREAM_ERRORS
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.tomltext import write_toml
from tests.rows import each_row

CATALOG = Catalog.load()

SHOP = """\
openapi: 3.0.3
info: {title: Shop, version: "1.2"}
servers: [{url: "http://{region}.shop.example/v1", variables: {region: {default: eu}}}, {url: https://b.example}]
security: [{token: []}]
paths:
  /order/{order-id}:
    parameters:
      - {name: order-id, in: path, required: true, schema: {type: integer}}
    get:
      operationId: getOrder
      summary: Get one order.
      tags: [orders]
      responses:
        200: {description: The order., content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
        404: {description: None.}
    delete:
      summary: Delete an order.
      responses: {204: {description: Gone.}}
  /order/{order-id}/cancel:
    post:
      parameters:
        - {name: order-id, in: path, required: true, schema: {type: string}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
      requestBody: {content: {application/json: {schema: {type: object, properties: {reason: {type: string}}}}}}
      responses: {200: {description: Cancelled.}}
      callbacks: {done: {}}
  /orders:
    post:
      operationId: orders_post
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
      responses: {201: {description: Made.}}
    trace: {responses: {}}
components:
  securitySchemes: {token: {type: http, scheme: bearer}}
  schemas:
    Order:
      type: object
      required: [id, item]
      properties:
        id: {type: integer, format: int64, readOnly: true}
        item: {type: string, nullable: true, pattern: "^(?!x)a"}
        price: {type: number, minimum: 0, exclusiveMinimum: true}
        state: {type: string, nullable: true, enum: [open, null]}
        parent: {$ref: "#/components/schemas/Order"}
        remote: {$ref: "other.yaml#/Thing"}
"""


def imported(text: str = SHOP) -> Imported:
    return import_openapi(read_document(text.encode()), CATALOG)


def found(source: str, text: str = SHOP) -> ImportedEndpoint:
    return next(endpoint for endpoint in imported(text).endpoints if endpoint.source == source)


def test_methods_come_from_the_catalog_by_what_operations_mean() -> None:
    """GET of an item is QUERY, a trailing catalog word the method, 201 makes CREATE (API-146, API-147)."""
    assert {endpoint.source: f"{endpoint.method} {endpoint.path}" for endpoint in imported().endpoints} == {
        "GET /order/{order-id}": "QUERY /orders/{order_id}",
        "DELETE /order/{order-id}": "REMOVE /orders/{order_id}",
        "POST /order/{order-id}/cancel": "CANCEL /orders/{order_id}",
        "POST /orders": "CREATE /orders",
    }


def test_renamed_segments_and_parameters_are_reported() -> None:
    """``order`` is a method name; so the path is another, and says so; the upstream still gets its own names."""
    endpoint = found("GET /order/{order-id}")
    assert any("'order' is now 'orders'" in review for review in endpoint.reviews)
    assert ("/order/{order-id}", "/orders/{order_id}") in imported().renamed
    assert endpoint.table["handler"]["url"].endswith("/order/{order_id}")


NAMED = """
openapi: 3.0.3
info: { title: Roles, version: "1" }
servers: [{ url: "https://roles.example" }]
paths:
  /roles/{kind}/{name}/{number}/{key}:
    get:
      summary: Get a role.
      parameters:
        - { name: kind, in: path, required: true, schema: { type: string, enum: [board, search, Se-Arch, tickets] } }
        - { name: name, in: path, required: true, schema: { type: string } }
        - { name: number, in: path, required: true, schema: { type: integer } }
        - { name: key, in: path, required: true, schema: { type: string, format: uuid } }
      responses: { "200": { description: A role. } }
"""


def test_values_of_a_path_that_are_names_of_methods_are_named() -> None:
    """A call with such a value is answered 460, whatever the document says of it."""
    (endpoint,) = imported(NAMED).endpoints
    said = [review for review in endpoint.reviews if review.startswith("[path]") and "460" in review]
    assert len(said) == 2, endpoint.reviews
    assert "'kind' cannot be 'search', 'Se-Arch':" in said[0] and "board" not in said[0]
    assert "'name' cannot be a method's name" in said[1]
    assert "number" not in said[1] and "key" not in said[1]


NESTED = """
openapi: 3.0.3
info: { title: Orders, version: "1" }
servers: [{ url: "https://orders.example" }]
paths:
  /orders:
    get:
      summary: List orders.
      parameters:
        - name: state
          in: query
          style: STYLE
          schema:
            type: object
            properties: { value: { type: string }, details: { type: array, items: { type: object } } }
      responses: { "200": { description: Orders. } }
"""


def test_nested_values_that_a_style_does_not_define_are_named() -> None:
    """They are sent as JSON; deepObject has them as fields."""
    for style, named in (("form", True), ("deepObject", False)):
        (endpoint,) = imported(NESTED.replace("STYLE", style)).endpoints
        said = [review for review in endpoint.reviews if "no style is for nested values" in review]
        assert bool(said) is named and all("'details' of 'state'" in each for each in said), (style, endpoint.reviews)


def test_the_handler_is_an_external_service_over_https() -> None:
    """The fields of AGTP-API section 12.3; http:// becomes https:// and is flagged; credentials are placeholders."""
    endpoint = found("GET /order/{order-id}")
    assert endpoint.table["handler"] == {
        "type": "external_service",
        "url": "https://eu.shop.example/v1/order/{order_id}",
        "method": "GET",
        "timeout_seconds": 30,
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "error_map": {"404": "not_found"},
    }
    assert endpoint.table["errors"] == ["not_found", *UPSTREAM_ERRORS]
    assert any("http://" in review for review in endpoint.reviews)


def test_inputs_are_closed_and_path_parameters_text() -> None:
    """Parameters and body fields in one closed object (AGTP-API sections 5.3 and 13.3)."""
    schema = found("POST /order/{order-id}/cancel").table["input_schema"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"order_id", "X-Trace", "reason"}
    assert found("GET /order/{order-id}").table["input_schema"]["properties"]["order_id"]["type"] == "string"
    body = found("POST /orders").table["input_schema"]
    assert "id" not in body["properties"]
    assert body["required"] == ["item"]


def test_schemas_are_translated_to_2020_12() -> None:
    """nullable, boolean exclusiveMinimum and recursion; what cannot be kept is left open."""
    properties = found("GET /order/{order-id}").table["output_schema"]["properties"]
    assert properties["item"] == {"type": ["string", "null"]}
    assert properties["price"] == {"type": "number", "minimum": 0, "exclusiveMinimum": 0}
    assert properties["state"] == {"anyOf": [{"type": "string", "enum": ["open"]}, {"type": "null"}]}
    assert properties["parent"] == {"$ref": "#/$defs/Order"}
    assert properties["remote"] == {}


def test_what_is_lost_is_counted() -> None:
    """Formats, patterns, remote references, cookies, callbacks, servers, and operations without an endpoint."""
    result = imported()
    for what in (
        *("the format int64", "patterns that cannot be matched in linear time", "cookie parameters"),
        *("references that lead outside the document, or nowhere", "callbacks", "further servers"),
    ):
        assert result.losses[what] >= 1, what
    assert result.skipped == ("TRACE /orders: no external_service handler sends TRACE",)


def test_texts_are_the_declarations_with_reviews_in_front() -> None:
    """Each text parses to its table; intent, outcome and impact are asked about; no host loads the file (API-148)."""
    for endpoint in imported().endpoints:
        text = endpoint.text("Shop\n[handler]")
        assert tomllib.loads(text) == endpoint.table
        assert "# REVIEW [outcome]" in text
        assert endpoint.file.endswith(".toml.review")
    assert any(review.startswith("[impact]") for review in found("POST /orders").reviews)


def test_a_declaration_that_the_host_would_refuse_says_so() -> None:
    """The control: a property that breaks the declaration's own rules is a problem, not a silent file."""
    text = SHOP.replace("summary: Get one order.", "summary: Get one order.\n      description: '\\u0007'")
    assert found("GET /order/{order-id}", text)
    broken = import_openapi(read_document(SHOP.encode()), CATALOG).endpoints[0]
    table = copy.deepcopy(dict(broken.table))
    table["errors"] = ["not an error name"]
    from agtphost.contract.declaration import Declaration, Rules

    said: list[str] = []
    Declaration(table, Rules(catalog=CATALOG), lambda _, message, *__: said.append(message)).endpoint("", 0)
    assert any("not an error name" in message for message in said)
    assert any("external_service" in message for message in said)


def test_ambiguous_operations_are_flagged_with_suggestions() -> None:
    """A POST that nothing describes is EXECUTE, for a person to decide (API-146)."""
    text = 'openapi: 3.1.0\npaths: {/things: {post: {operationId: bookem, responses: {"200": {description: x}}}}}'
    endpoint = found("POST /things", text)
    assert endpoint.method == "EXECUTE"
    assert any("[method]" in review and "BOOK" in review for review in endpoint.reviews)
    (review,) = (
        review for review in found("POST /things", text.replace("bookem", "connect_it")).reviews if "EXE" in review
    )
    assert "also possible: " in review and " CONNECT" not in review, "the name is that of a method of HTTP"


def test_operations_that_would_be_one_endpoint_are_told_apart() -> None:
    """Templates that overlap under one method get another, each reported."""
    paths = ("/a/{x}/b", "/a/c/{y}", "/a/c/{z}", "/x.{e}")
    result = import_openapi({"openapi": "3.1.0", "paths": {path: {"get": {}} for path in paths}}, CATALOG)
    assert len({(endpoint.method, endpoint.path) for endpoint in result.endpoints}) == 4
    assert [endpoint.method for endpoint in result.endpoints][:3] == ["QUERY", "FETCH", "RETRIEVE"]
    assert "would clash" in "".join(result.endpoints[1].reviews)


@each_row(
    "text",
    ['{"swagger": "2.0"}', '{"openapi": "2.9.9"}', "[]", '{"openapi": 3}', '{"openapi": "3.0.0", "paths": []}'],
)
def test_other_documents_are_refused(text: str) -> None:
    """Only OpenAPI 3.0 and 3.1."""
    with pytest.raises(OpenAPIError):
        imported(text)


# Large documents


def large(operations: int) -> dict[str, Any]:
    """A document of many operations whose schemas refer to each other in circles."""
    schemas: dict[str, Any] = {}
    for index in range(300):
        fields = {f"to{step}": {"$ref": f"#/components/schemas/S{(index * step + 1) % 300}"} for step in (1, 2, 3)}
        fields["note"] = {"type": "string", "description": "word " * 60}
        schemas[f"S{index}"] = {"type": "object", "properties": fields}
    paths: dict[str, Any] = {}
    for index in range(operations):
        answer = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/S{index % 300}"}}}}
        paths.setdefault(f"/area-{index // 40}/thing-{index % 40}/{{id}}", {})["get"] = {
            "operationId": f"getThing{index}",
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "responses": {"200": {"description": "It.", **answer}},
        }
    return {"openapi": "3.1.0", "info": {"title": "Large"}, "paths": paths, "components": {"schemas": schemas}}


@pytest.mark.release
def test_a_large_document_is_imported_whole() -> None:
    """Hundreds of operations over a web of 300 schemas: every one is sound, and says what was left open."""
    result = import_openapi(large(150), CATALOG)
    assert len(result.endpoints) == 150
    assert any("accepts any value" in review or "accept any value" in review for review in result.endpoints[0].reviews)


WORDS = st.sampled_from(["order", "orders", "{id}", "{a-b}", "x.{y}", "search", "agents", "v1", "%41", "ü", "a b", ""])


@given(st.lists(WORDS, max_size=5), st.sampled_from(["get", "post", "put", "patch", "delete"]))
def test_any_path_becomes_one_that_the_host_takes(words: list[str], http: str) -> None:
    """Whatever a path is made of, the declaration has no problem (API-147)."""
    document = {"openapi": "3.1.0", "paths": {"/" + "/".join(words): {http: {"summary": "Do it."}}}}
    (endpoint,) = import_openapi(document, CATALOG).endpoints
    assert CATALOG.knows(endpoint.method)


FRAGMENTS = st.lists(st.sampled_from(["order", "{id}", "{a-b}", "a#b", "#", "{id}#x", "v1"]), min_size=1, max_size=4)
NAMES = st.sets(st.sampled_from(["id", "a-b", "a_b", "body_id", "n"]), max_size=4)


@given(
    FRAGMENTS, st.sampled_from(["post", "put"]), NAMES, st.sampled_from(["https://x.example", "https://x.example/#y"])
)
def test_fragments_and_names_that_are_taken_are_what_the_host_takes(
    words: list[str], http: str, names: set[str], server: str
) -> None:
    """No fragment in what is called; body and path values of one name are both there."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in sorted(names)}}
    operation = {"summary": "Do it.", "requestBody": {"content": {"application/json": {"schema": schema}}}}
    document = {"openapi": "3.1.0", "servers": [{"url": server}], "paths": {"/" + "/".join(words): {http: operation}}}
    (endpoint,) = import_openapi(document, CATALOG).endpoints
    assert "#" not in endpoint.table["handler"]["url"]
    parameters = {segment[1:-1] for segment in endpoint.path.split("/") if segment.startswith("{")}
    declared = set(endpoint.table["input_schema"]["properties"])
    assert parameters <= declared
    # Nothing of the body got lost in a name of the path's.
    assert len(declared) >= len(names) + len(parameters)


# Reading and writing


def test_yaml_means_what_json_would() -> None:
    """No dates, no yes for true, keys as text, aliases written out."""
    read = read_document(b"a: 2020-01-01\nb: yes\nc: true\n200: x\nd: &x [1]\ne: *x\n")
    assert read == {"a": "2020-01-01", "b": "yes", "c": True, "200": "x", "d": [1], "e": [1]}
    assert read["d"] is not read["e"]


@each_row(
    "text",
    [
        *(b"a: 1\na: 2\n", b'{"a": 1, "a": 2}', b"{", b"a: [", b"a: !!python/name:os.system x", b"a: .nan"),
        *(
            b"[1e999]",
            b'{"a": "\\udc00"}',
            b'{"\\ud800": 1}',
            b"[" * 201 + b"]" * 201,
            b'{"a":' * 201 + b"1" + b"}" * 201,
        ),
        *(b"\xff", b'{"a": NaN}', b"a: &a [*a]", b"[" * 5000, b"1: x\n'1': y"),
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (n + 1, n + 1, b",".join([b"*%c" % n] * 10)) for n in range(97, 105)),
    ],
)
def test_bad_texts_are_refused(text: bytes) -> None:
    """Names twice, broken syntax, tags, NaN, circles, depth and alias bombs, each by an error of our own."""
    with pytest.raises(DocumentTextError):
        read_document(text)


def test_json_within_the_bounds_is_read_unchanged() -> None:
    """Depth, pairs of surrogates, escapes and large numbers have the value that Python's own decoder finds."""
    for text in (
        b"[" * 200 + b"]" * 200,
        b'{"a": ["\\ud83d\\ude00", "\\\\ud800", 1.5e300, 18446744073709551616, {"b": [[], {}, null]}]}',
        b'\xef\xbb\xbf{"a": "gr\xc3\xb6\xc3\x9fe"}',
    ):
        assert read_document(text) == read_json(text) == json.loads(text)


TOML = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), TOML, max_size=4))
def test_what_is_written_as_toml_is_read_back(table: dict[str, Any]) -> None:
    """The writer against the standard library's reader."""
    try:
        json.dumps(table, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(write_toml(table)) == table


def test_toml_has_no_null() -> None:
    """The control: what cannot be written is an error, never a wrong text."""
    with pytest.raises(TypeError):
        write_toml({"a": [None]})


# Bodies and header fields


BODIES = """\
openapi: 3.0.3
info: {title: Bodies, version: "1"}
servers: [{url: "https://b.example"}]
security: [{key: []}]
paths:
  /charges:
    post:
      parameters:
        - {name: Stripe-Account, in: header, required: true, schema: {type: string}}
        - {name: Authorization, in: header, required: true, schema: {type: string}}
        - {name: X-Key, in: header, required: true, schema: {type: string}}
        - {name: Host, in: header, required: true, schema: {type: string}}
        - {name: X-Forwarded-For, in: header, schema: {type: string}}
        - {name: X-Version, in: header, required: true, schema: {type: string, enum: ["2024"]}}
        - {name: session, in: cookie, required: true, schema: {type: string}}
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [amount, undescribed]
              properties:
                amount: {type: integer}
                metadata: {type: object, additionalProperties: {type: string}}
                expand: {type: array, items: {type: string}}
            encoding:
              metadata: {style: deepObject, explode: true}
              expand: {style: deepObject, explode: true}
      responses: {200: {description: Done.}}
    get:
      parameters:
        - {name: created, in: query, style: deepObject, explode: true, schema: {type: object}}
        - {name: ids, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, content: {application/json: {schema: {type: object}}}}
        - {name: plain, in: query, schema: {type: array, items: {type: string}}}
      responses: {200: {description: Done.}}
  /files:
    post:
      requestBody:
        content:
          multipart/form-data:
            schema:
              type: object
              required: [file]
              properties:
                file: {type: string, format: binary, description: The octets.}
                more: {type: array, items: {type: string, format: binary}}
                purpose: {type: string}
            encoding: {file: {contentType: "image/png, image/jpeg"}}
      responses: {200: {description: Done.}}
  /blob:
    put:
      requestBody: {required: true, content: {application/octet-stream: {schema: {type: string, format: binary}}}}
      responses: {200: {description: Done.}}
    patch:
      requestBody:
        content:
          application/json-patch+json: {schema: {type: array, items: {type: object}}}
      responses: {200: {description: Done.}}
    delete:
      requestBody: {content: {application/json: {schema: {type: object, properties: {grace: {type: integer}}}}}}
      responses: {200: {description: Done.}}
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}
"""


def handler_of(source: str) -> dict[str, Any]:
    """The handler table of an operation of :data:`BODIES`."""
    table: dict[str, Any] = found(source, BODIES).table["handler"]
    return table


def test_form_bodies_keep_the_declared_encoding() -> None:
    """A form is sent as a form, nested fields in the style that the document has for them."""
    handler = handler_of("POST /charges")
    assert handler["body"] == "form"
    assert handler["encoding"] == {"metadata": {"style": "deepObject"}, "expand": {"style": "deepObject"}}
    assert not any("JSON" in review for review in found("POST /charges", BODIES).reviews)


def test_required_fields_without_a_property_are_kept() -> None:
    """The upstream refuses a request without them, so the caller can send them, and a person hears of it."""
    endpoint = found("POST /charges", BODIES)
    schema = endpoint.table["input_schema"]
    assert schema["properties"]["undescribed"] == {} and "undescribed" in schema["required"]
    assert any("'undescribed' is required but not described" in review for review in endpoint.reviews)


def test_header_parameters_become_inputs_unless_they_are_the_hosts() -> None:
    """Fields of the upstream's own are inputs; credentials, hop fields and cookies are named for review."""
    endpoint = found("POST /charges", BODIES)
    handler = endpoint.table["handler"]
    assert handler["input_headers"] == {"Stripe-Account": "Stripe-Account"}
    assert "Stripe-Account" in endpoint.table["input_schema"]["required"]
    assert handler["headers"] == {"X-Key": "${KEY}", "X-Version": "2024"}
    for name in ("'Host' is required", "'X-Forwarded-For' is optional", "'session' of the cookie is required"):
        assert any(name in review for review in endpoint.reviews), name


def test_query_parameters_keep_their_style() -> None:
    """deepObject, unexploded lists and JSON are declared; what is OpenAPI's default needs no word."""
    assert handler_of("GET /charges")["encoding"] == {
        "created": {"style": "deepObject"},
        "ids": {"style": "form", "explode": False},
        "filter": {"content_type": "application/json"},
    }


def test_uploads_become_multipart_with_files() -> None:
    """A binary property is a file member, which takes base64 alone or with its name and type."""
    endpoint = found("POST /files", BODIES)
    handler, schema = endpoint.table["handler"], endpoint.table["input_schema"]
    assert handler["body"] == "multipart" and "Content-Type" not in handler["headers"]
    assert handler["encoding"] == {
        "file": {"content_type": "image/png, image/jpeg", "file": True},
        "more": {"file": True},
    }
    assert schema["properties"]["file"]["anyOf"][0] == {"type": "string", "contentEncoding": "base64"}
    assert schema["properties"]["more"]["items"]["anyOf"][1]["required"] == ["data"]
    assert schema["required"] == ["file"]


def body_of(*kinds: str) -> ImportedEndpoint:
    """The endpoint of an operation whose body has one field in each of these media types."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    operation = {"requestBody": {"content": {kind: {"schema": schema} for kind in kinds}}, "responses": {}}
    document = {"openapi": "3.0.0", "paths": {"/x": {"post": operation}}, "servers": [{"url": "https://x.example"}]}
    result = import_openapi(document, CATALOG)
    assert result.skipped == (), result.skipped
    return result.endpoints[0]


def test_media_types_that_are_not_sent_are_named() -> None:
    """What only a form or a patch can say is a line for review; of many types four are named."""
    endpoint = body_of("application/xml", "multipart/form-data", "application/json")
    line = "[handler.body] it is sent as application/json; the document also has application/xml, multipart/form-data"
    assert line in endpoint.reviews
    many = body_of("application/json", *(f"text/x-{number}" for number in range(6)))
    assert any(review.endswith("text/x-3 and 2 more") for review in many.reviews)
    assert not any("also has" in review for review in body_of("application/json").reviews)


@pytest.mark.parametrize("kind", ["", "examples"])
def test_a_body_without_a_media_type_is_sent_as_json(kind: str) -> None:
    """Public documents have such names; a proper one counts where there is one."""
    endpoint = body_of(kind)
    assert endpoint.table["handler"]["headers"] == {"Content-Type": "application/json"}
    assert "a" in endpoint.table["input_schema"]["properties"]
    assert any("names no media type" in review for review in endpoint.reviews)
    proper = body_of(kind, "application/x-www-form-urlencoded")
    assert proper.table["handler"]["body"] == "form" and not any("media type" in each for each in proper.reviews)


def test_whole_bodies_and_bodies_of_delete_are_declared() -> None:
    """Octets, a list, and fields sent with DELETE reach the upstream as the body that it takes."""
    put, patch, delete = (handler_of(f"{http} /blob") for http in ("PUT", "PATCH", "DELETE"))
    assert (put["body"], put["whole_body"], put["encoding"]) == ("raw", "body", {"body": {"file": True}})
    assert put["headers"]["Content-Type"] == "application/octet-stream"
    assert patch["whole_body"] == "body" and patch["headers"]["Content-Type"] == "application/json-patch+json"
    assert delete["body"] == "json" and "query" not in delete


def test_declarations_with_bodies_are_loaded() -> None:
    """Nothing of it is skipped: each declaration passes the host's own checks."""
    result = imported(BODIES)
    assert result.skipped == () and len(result.endpoints) == 6


def operation_with(body: Any = None, responses: Any = None, http: str = "post") -> ImportedEndpoint:
    """Return what becomes of an operation with one JSON body."""
    operation: dict[str, Any] = {"summary": "Send it", "responses": responses or {"204": {"description": "Done."}}}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    (made,) = import_openapi({"openapi": "3.0.3", "paths": {"/things": {http: operation}}}, CATALOG).endpoints
    return made


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@each_row(
    ("path", "operation", "expected"),
    [
        # Jira, Linode, Square: what is created is called like a method, or the summary names it first.
        ("/filter", {"operationId": "createFilter", "description": "Creates a filter."}, "CREATE /filters"),
        ("/issue", {"summary": "Create issue", "description": "Creates an issue."}, "CREATE /issues"),
        ("/backups", {"summary": "Backup Snapshot Create", "description": "Creates a snapshot."}, "CREATE /backups"),
        ("/people/bulk", {"operationId": "BulkPeople", "description": "Creates people."}, "CREATE /people/bulk"),
        ("/orders/{id}/cancel", {"summary": "Cancel it", "description": "Cancels an order."}, "CANCEL /orders/{id}"),
        ("/reports/create", {"summary": "Create a report"}, "CREATE /reports"),
        ("/creations", {"summary": "Creation of things", "description": "Creative."}, "EXECUTE /creations"),
    ],
)
def test_a_post_that_is_said_to_create_is_create(path: str, operation: dict[str, Any], expected: str) -> None:
    """Whatever the last segment is called, and wherever "Creates" stands first."""
    document = {"openapi": "3.0.3", "paths": {path: {"post": {**operation, "responses": {}}}}}
    (made,) = import_openapi(document, CATALOG).endpoints
    assert f"{made.method} {made.path}" == expected


@each_row(
    "body",
    [
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "additionalProperties": True},
        {"type": "object"},
        {"allOf": [{"type": "object", "additionalProperties": TEXT}]},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "array", "items": TEXT}},
    ],
)
def test_a_body_whose_fields_have_no_names_is_one_member(body: dict[str, Any]) -> None:
    """Labels by any name can be sent: the caller gives the whole object."""
    made = operation_with(body)
    schema = made.table["input_schema"]
    assert made.table["handler"]["whole_body"] == "body" and schema["required"] == ["body"]
    assert compile_schema(schema, role="input").is_valid(
        {"body": {"any": ["name"]} if "array" in str(body) else {"any": "name"}}
    )


def test_an_object_without_fields_has_no_member() -> None:
    """A body that is always an empty object is not asked of callers."""
    for body in ({"type": "object", "properties": {}}, {"type": "object", "additionalProperties": False}):
        made = operation_with(body)
        assert made.table["input_schema"]["properties"] == {} and "whole_body" not in made.table["handler"]


def test_a_field_of_several_alternatives_takes_what_each_of_them_takes() -> None:
    """Kinds that one field tells apart can all be sent, and a field of all parts follows each part."""
    card = {"type": "object", "properties": {"kind": {**TEXT, "enum": ["card"]}, "number": TEXT, "note": TEXT}}
    bank = {"type": "object", "properties": {"kind": {**TEXT, "enum": ["bank"]}, "number": NUMBER, "note": TEXT}}
    schema = operation_with({"oneOf": [card, bank]}).table["input_schema"]
    assert schema["properties"] == {
        "kind": {"type": "string", "enum": ["card", "bank"]},
        "number": {"anyOf": [TEXT, NUMBER]},
        "note": TEXT,
    }
    parts = [{"properties": {"name": {**TEXT, "minLength": 2}}}, {"properties": {"name": {**TEXT, "maxLength": 3}}}]
    compiled = compile_schema(operation_with({"allOf": parts}).table["input_schema"], role="input")
    assert [compiled.is_valid({"name": name}) for name in ("a", "ab", "abcd")] == [False, True, False]
    other = [{"properties": {"name": TEXT}}, {"properties": {"name": NUMBER}}]
    assert operation_with({"allOf": other}).table["input_schema"]["properties"] == {"name": TEXT}


def test_a_field_that_is_returned_only_in_a_part_is_no_input() -> None:
    """``readOnly`` counts where the field is described by another schema, too."""
    body = {"type": "object", "properties": {"id": {"allOf": [{**TEXT, "readOnly": True}]}, "name": TEXT}}
    assert [*operation_with(body).table["input_schema"]["properties"]] == ["name"]


@each_row(
    ("ways", "headers"),
    [
        ([["cookie"], ["key"], ["token"]], {"X-Key": "${KEY}"}),
        ([["cookie", "key"], ["token"]], {"Authorization": "Bearer ${TOKEN}"}),
        ([["token"], ["key"]], {"Authorization": "Bearer ${TOKEN}"}),
        ([["cookie"], []], {}),
    ],
)
def test_of_several_ways_to_authenticate_one_by_header_is_taken(ways: list[list[str]], headers: dict[str, str]) -> None:
    """The session cookie of intellifi.nl's pages comes first, and a host has none."""
    schemes = {
        "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "token": {"type": "http", "scheme": "bearer"},
    }
    document = {
        "openapi": "3.0.3",
        "paths": {"/things": {"get": {"responses": {}}}},
        "security": [{key: [] for key in way} for way in ways],
        "components": {"securitySchemes": schemes},
    }
    (made,) = import_openapi(document, CATALOG).endpoints
    assert made.table["handler"].get("headers", {}) == headers
    assert not [said for said in made.reviews if "not sent in a header" in said]


def test_what_is_sent_in_one_direction_only_is_required_in_that_one() -> None:
    """Within a field, too: ``readOnly`` of what is sent, ``writeOnly`` of what is returned (gsmtasks.com, osf.io)."""
    stamp = {"type": "object", "readOnly": True, "properties": {"at": TEXT}}
    address = {
        "type": "object",
        "required": ["city", "geocoded_at", "made", "code"],
        "properties": {
            "city": TEXT,
            "geocoded_at": {**TEXT, "readOnly": True},
            "made": {"$ref": "#/components/schemas/Stamp"},
            "code": {**TEXT, "writeOnly": True},
        },
    }
    body = {"type": "object", "properties": {"to": {"$ref": "#/components/schemas/Address"}, "from": address}}
    operation = {
        "summary": "Send it",
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "It.", "content": {"application/json": {"schema": body}}}},
    }
    document = {
        "openapi": "3.0.3",
        "paths": {"/things": {"post": operation}},
        "components": {"schemas": {"Address": address, "Stamp": stamp}},
    }
    (made,) = import_openapi(document, CATALOG).endpoints
    required = {"input_schema": ["city", "code"], "output_schema": ["city", "geocoded_at", "made"]}
    for member, names in required.items():
        schema = made.table[member]
        assert schema["properties"]["from"]["required"] == names == schema["$defs"]["Address"]["required"]


def test_a_media_type_with_a_schema_comes_before_one_without() -> None:
    """Zuora's documents have examples under one spelling of JSON and the schema under another."""
    schema = {"type": "object", "properties": {"name": TEXT}}
    content = {"application/json": {"examples": {}}, "application/json; charset=utf-8": {"schema": schema}}
    made = operation_with(responses={"200": {"description": "It.", "content": content}})
    assert made.table["output_schema"]["properties"] == {"name": TEXT}
    assert "Accept" not in made.table["handler"].get("headers", {})


def test_a_required_credential_that_is_a_parameter_is_named() -> None:
    """OpenAPI ignores a parameter Authorization; without ``security`` it is all that tells of a credential."""
    parameter = {"name": "Authorization", "in": "header", "required": True, "schema": TEXT}
    operation = {"parameters": [parameter], "responses": {}}
    document: dict[str, Any] = {"openapi": "3.0.3", "paths": {"/things": {"get": operation}}}
    (made,) = import_openapi(document, CATALOG).endpoints
    assert any("'Authorization' is a parameter" in review for review in made.reviews)
    schemes = {"key": {"type": "http", "scheme": "bearer"}}
    document |= {"security": [{"key": []}], "components": {"securitySchemes": schemes}}
    (made,) = import_openapi(document, CATALOG).endpoints
    assert not any("'Authorization' is a parameter" in review for review in made.reviews)


@each_row(
    ("kind", "accept"),
    [
        ("application/json", None),
        ("application/json; charset=utf-8", None),
        ("application/vnd.books.v2+json", "application/vnd.books.v2+json"),
        ("application/hal+json;charset=UTF-8", "application/hal+json"),
        ("*/*", None),
        ("text/csv", None),
    ],
)
def test_the_media_type_of_the_answer_is_asked_for(kind: str, accept: str | None) -> None:
    """A service with a JSON of its own name answers 406 to who accepts application/json alone."""
    responses = {"200": {"description": "It.", "content": {kind: {"schema": {"type": "object"}}}}}
    assert operation_with(responses=responses).table["handler"].get("headers", {}).get("Accept") == accept


@each_row(
    ("responses", "http", "empty"),
    [
        ({"200": {"description": "Done."}}, "post", True),
        (
            {"200": {"description": "Done.", "content": {"application/json": {}}}, "202": {"description": "So."}},
            "put",
            True,
        ),
        ({"200": {"description": "Done.", "content": {"application/json": {}}}}, "post", False),
        ({"default": {"description": "Done."}}, "post", True),
        ({"default": {"description": "It.", "content": {"application/json": {}}}}, "post", False),
        ({"204": {"description": "Done."}}, "delete", False),
        ({"200": {"description": "Done."}}, "head", False),
        (
            {"200": {"description": "It.", "content": {"application/json": {}}}, "404": {"description": "No."}},
            "get",
            False,
        ),
    ],
)
def test_a_success_without_a_body_is_declared(responses: dict[str, Any], http: str, empty: bool) -> None:
    """The document says which answers have none; the host takes an empty one for malformed otherwise."""
    assert operation_with(responses=responses, http=http).table["handler"].get("empty_response", False) is empty


def test_a_body_of_an_answer_that_has_none_is_left_out() -> None:
    """Bitbucket describes one of a 204: the empty object that the host makes of such an answer is valid output."""
    error = {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}}
    response = {"description": "No vote.", "content": {"application/json": {"schema": error}}}
    made = operation_with(responses={"204": response}, http="get")
    assert compile_schema(made.table["output_schema"], role="output").is_valid({})


@each_row(
    ("codes", "said"),
    [(["303", "400"], True), (["302"], True), (["200", "303"], False), (["default", "303"], False), (["400"], False)],
)
def test_a_success_that_is_a_redirect_is_named(codes: list[str], said: bool) -> None:
    """No call follows it, so the caller gets upstream_error; Jira has ten such operations."""
    made = operation_with(responses={code: {"description": "So."} for code in codes})
    assert any(review.startswith("[errors] success is a redirect (30") for review in made.reviews) is said


# Verbs and texts of real documents


@each_row(
    ("http", "operation", "method"),
    [
        ("post", {"operationId": "PostCustomers", "description": "<p>Creates a new customer object.</p>"}, "CREATE"),
        ("post", {"operationId": "PostCustomersId", "description": "<p>Updates the customer.</p>"}, "UPDATE"),
        ("get", {"operationId": "deprecated_listUsers"}, "LIST"),
        ("get", {"operationId": "deprecated_users", "summary": "Deprecated users"}, "QUERY"),
        ("post", {"operationId": "deprecate"}, "EXECUTE"),
        ("get", {"operationId": "connectCoreV1GetNamespacedPodProxy", "description": "connect GET requests"}, "QUERY"),
        ("post", {"operationId": "connectCoreV1PostPodExec", "description": "connect POST requests"}, "EXECUTE"),
    ],
)
def test_methods_say_what_real_documents_mean(http: str, operation: dict[str, Any], method: str) -> None:
    """Stripe's "Creates", Slack's deprecated_, and Kubernetes' connect, which is no method of this protocol."""
    document = {"openapi": "3.0.3", "paths": {"/things": {http: {**operation, "responses": {}}}}}
    (endpoint,) = import_openapi(document, CATALOG).endpoints
    assert endpoint.method == method


@each_row(
    ("text", "plain"),
    [
        ("<p>Creates a <a href=\"/docs\" class='x'>customer</a>.</p>", "Creates a customer."),
        ("One<br/>two<ul><li>three</li></ul>", "One two three"),
        ("a &lt; b &amp; c", "a < b & c"),
        ("the <id> of <resource-name>, 1 < 2 > 0", "the <id> of <resource-name>, 1 < 2 > 0"),
        ("<P>Upper</P><!-- hidden -->", "Upper"),
        ("<p " * 1000, ("<p " * 1000).strip()),
    ],
)
def test_html_is_taken_out_of_texts(text: str, plain: str) -> None:
    """Elements go, places to fill in stay, and a text that never closes one costs little."""
    assert strip_html(text) == plain


def test_descriptions_of_an_import_have_no_html() -> None:
    """Endpoint, parameters, schemas and outcome alike."""
    described = {"description": "<p>The <b>name</b>.</p>"}
    document = {
        "openapi": "3.0.3",
        "paths": {
            "/things": {
                "get": {
                    "summary": "<b>List</b> things",
                    "description": "<p>All things.</p>\n\n<p>More.</p>",
                    "parameters": [{"name": "n", "in": "query", **described, "schema": {"type": "string"}}],
                    "responses": {
                        "200": {
                            "description": "<p>Found.</p>",
                            "content": {"application/json": {"schema": {"type": "object", **described}}},
                        }
                    },
                }
            }
        },
    }
    (endpoint,) = import_openapi(document, CATALOG).endpoints
    assert "<" not in json.dumps(endpoint.table)
    assert endpoint.table["description"] == "All things." and endpoint.table["semantic"]["intent"] == "List things"


# Two documents on one host


def test_prefixes_keep_two_documents_apart() -> None:
    """Endpoints and files of one document get a first segment of their own; the upstream does not see it."""
    document = read_document(SHOP.encode())
    one, two = (import_openapi(document, CATALOG, prefix).endpoints for prefix in ("first", "/vendors/second/"))
    assert {endpoint.path.split("/orders")[0] for endpoint in one} == {"/first"}
    assert {endpoint.path.split("/orders")[0] for endpoint in two} == {"/vendors/second"}
    assert not {endpoint.file for endpoint in one} & {endpoint.file for endpoint in two}
    assert {each.table["handler"]["url"] for each in one} == {each.table["handler"]["url"] for each in two}


@each_row("prefix", ["agents", "query", "a b", "{id}", "../x", "a//b"])
def test_prefixes_that_begin_no_path_are_refused(prefix: str) -> None:
    """They would be refused at the host's start, endpoint by endpoint."""
    with pytest.raises(PrefixError, match="cannot begin a path"):
        import_openapi(read_document(SHOP.encode()), CATALOG, prefix)
