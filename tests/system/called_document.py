"""An OpenAPI document of our own, with everything that a request may be made of."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 900}
LIST: dict[str, Any] = {"type": "array", "minItems": 2, "items": TEXT}
DONE: dict[str, Any] = {
    "type": "object",
    "required": ["done"],
    "properties": {"done": {"type": "boolean"}, "count": NUMBER},
}


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required or [*properties], "properties": properties}


def _parameter(name: str, schema: Any, place: str = "query", **members: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": True, "schema": schema, **members}


def _body(kind: str, schema: Any, **members: Any) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": schema, **members}}}


def _operation(summary: str, *, answer: Any = DONE, kind: str = "application/json", **members: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"description": "It is done."}
    if answer is not None:
        response["content"] = {kind: {"schema": answer}}
    return {"summary": summary, "responses": {"200": response}, **members}


NESTED = _object(name=TEXT, tags=LIST, owner=_object(mail={"type": "string", "format": "email"}, age=NUMBER))
DEEP = {"style": "deepObject", "explode": True}
KINDS = {
    "oneOf": [
        _object(kind={"type": "string", "enum": ["card"]}, number=TEXT),
        _object(kind={"type": "string", "enum": ["bank"]}, number=NUMBER, holder=TEXT),
    ]
}

PATHS: dict[str, Any] = {
    "/shelves/{shelf}/books/{book-id}": {
        "parameters": [_parameter("shelf", TEXT, "path")],
        "get": _operation("Get a book", parameters=[_parameter("book-id", TEXT, "path")]),
        "delete": _operation("Delete a book", parameters=[_parameter("book-id", TEXT, "path")], answer=None),
    },
    "/search": {
        "get": _operation(
            "Search books",
            parameters=[
                _parameter("word", LIST),
                _parameter("joined", LIST, explode=False),
                _parameter("piped", LIST, style="pipeDelimited", explode=False),
                _parameter("filter", _object(author=TEXT, year=NUMBER), **DEEP),
                _parameter("flag", {"type": "boolean"}),
                _parameter("ids[]", LIST),
            ],
            answer={"type": "array", "items": DONE},
        )
    },
    "/orders": {
        "post": _operation(
            "Create an order",
            requestBody=_body(
                "application/x-www-form-urlencoded",
                _object(metadata=NESTED, expand=LIST, total=NUMBER, plain=LIST, note=TEXT),
                encoding={"metadata": DEEP, "expand": DEEP},
            ),
        )
    },
    "/messages": {
        "post": _operation(
            "Send a message",
            parameters=[_parameter("urgent", {"type": "boolean"})],
            requestBody=_body(
                "application/x-www-form-urlencoded",
                _object(To=TEXT, Media=LIST, Extra=_object(a=TEXT), Joined=LIST, urgent=TEXT),
                encoding={"Joined": {"style": "form", "explode": False}},
            ),
        )
    },
    "/covers/{shelf}": {
        "post": _operation(
            "Upload a cover",
            parameters=[_parameter("shelf", TEXT, "path"), _parameter("X-Request-Source", TEXT, "header")],
            requestBody=_body(
                "multipart/form-data",
                _object(
                    cover={"type": "string", "format": "binary"},
                    pages={"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1},
                    title=TEXT,
                    about=_object(author=TEXT),
                ),
                encoding={"cover": {"contentType": "image/png, image/jpeg"}},
            ),
        )
    },
    "/scans": {
        "put": _operation(
            "Replace a scan", requestBody=_body("application/octet-stream", {"type": "string", "format": "binary"})
        ),
        "post": _operation("Send a page", requestBody=_body("text/csv", {"type": "string"}), answer=None),
    },
    "/headers": {
        "get": _operation(
            "Read by header fields",
            parameters=[
                _parameter("X-Tenant", {"type": "string", "pattern": "^t-[a-z]{4}$"}, "header"),
                _parameter("X-Numbers", {"type": "array", "items": NUMBER, "minItems": 2}, "header"),
            ],
        )
    },
    "/books/{id}": {
        "patch": _operation(
            "Update a book",
            parameters=[_parameter("id", NUMBER, "path")],
            requestBody=_body("application/merge-patch+json", NESTED),
            answer=DONE,
            kind="application/vnd.books.v2+json",
        )
    },
    "/labels": {
        "put": _operation(
            "Replace labels", requestBody=_body("application/json", {"type": "object", "additionalProperties": TEXT})
        ),
        "patch": _operation("Update labels", requestBody=_body("application/json", LIST)),
    },
    "/payments": {"post": _operation("Create a payment", requestBody=_body("application/json", KINDS))},
    "/refunds": {
        "post": _operation(
            "Create a refund",
            requestBody=_body(
                "application/json",
                {"allOf": [_object(amount=NUMBER, reason=TEXT), _object(reason={"type": "string", "maxLength": 30})]},
            ),
        )
    },
}

OWN: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "A library", "version": "1"},
    "servers": [{"url": "https://library.example"}],
    "security": [{"key": []}],
    "paths": PATHS,
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}
