"""
``docs/endpoint-file.rst``: every member of an endpoint's file and of a recipe's file.

The texts are in ``docs/endpoint-members.toml``, the examples below.
``docs/generate.py`` writes the page, and ``tests/docs/test_endpoint_reference.py``
compares its members with those that the host reads, and loads the examples.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.contract import declaration, handler_reference, request_format, semantic, service
from agtphost.contract.recipes import recipe_loading

DOCS = Path(__file__).resolve().parent

_WHERE = tuple(handler_reference.WHERE)

TABLES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "endpoint": ("Members of an endpoint", declaration.REQUIRED, declaration.OPTIONAL),
    "semantic": ("[semantic]", semantic.MEMBERS, semantic.FOR_TOOLS),
    "deprecated": ("[deprecated]", declaration.DEPRECATED[:1], declaration.DEPRECATED[1:]),
    "registered_function": ("[handler] of a function", ("type", "function"), _WHERE),
    "composition": ("[handler] of a recipe", ("type", "recipe"), ()),
    "external_service": (
        "[handler] of a service over HTTPS",
        ("type", "url", "method"),
        tuple(name for name in service.MEMBERS if name not in ("type", "url", "method")),
    ),
    "encoding": ("[handler.encoding.NAME]", (), request_format.ENCODING),
    "plugin": ("[handler] of a plugin", ("type", "plugin"), ("settings", *_WHERE)),
    "recipe": ("[[recipe]]", recipe_loading.REQUIRED, recipe_loading.OPTIONAL),
    "step": ("[[recipe.step]]", ("method", "path"), recipe_loading.STEP[2:]),
    "recipe_endpoint": ("[recipe.endpoint]", recipe_loading.ENDPOINT[:-1], recipe_loading.ENDPOINT[-1:]),
}
"""Heading, required members and optional members of each table, as the host reads them."""

LEADS: Mapping[str, str] = {
    "registered_function": "The host calls a Python function (:doc:`endpoints`).",
    "composition": "The host calls the steps of a recipe (:doc:`recipes`).",
    "external_service": (
        "The host sends an HTTPS request and answers with the service's JSON (:doc:`recipes`). ``errors`` lists the "
        "five errors that each such endpoint has: " + ", ".join(f"``{name}``" for name in service.UPSTREAM_ERRORS) + "."
    ),
    "encoding": "How one input member of an external service is written in the query, a form or a header field.",
    "plugin": "A handler of an installed package answers.",
    "recipe": (
        "A file of recipes (``[recipes] file`` of ``host.toml``) is a list of these. Text that begins with ``=`` is a "
        "`JMESPath <https://jmespath.org>`_ expression over ``input`` and the captures of earlier steps; all other "
        "values stand for themselves."
    ),
    "step": (
        "``[[recipe.step.parallel]]`` tables below one ``[[recipe.step]]`` run at the same time; they have the same "
        "members."
    ),
    "recipe_endpoint": "An agent may propose an endpoint, and a recipe that fits answers it.",
}
"""What stands above the members of a table."""

FUNCTION = """\
method = "QUERY"
path = "/library/{isbn}"
description = "Looks a book up by its ISBN."
required_scopes = ["library:read"]
errors = ["book_unknown"]
timeout = 5
cost = "USD=0.02"
strict_output = true

[semantic]
intent = "Look a book up by its ISBN."
actor = "agent"
outcome = "Title and author of the book are known."
capability = "retrieval"
confidence = 0.99
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
required = ["isbn"]
properties = { isbn = { type = "string", pattern = "^[0-9]{13}$" } }

[output_schema]
type = "object"
required = ["title"]
properties = { title = { type = "string" }, author = { type = "string" } }

[handler]
type = "registered_function"
function = "handlers.library.look_up"

[deprecated]
deprecated_in = "2.1.0"
removed_in = "3.0.0"
successor = { method = "QUERY", path = "/books/{isbn}" }
"""

SERVICE = """\
method = "QUERY"
path = "/orders/{order_id}"
description = "Returns an order of the shop."
required_scopes = ["orders:read"]
errors = [
    "order_unknown", "upstream_timeout", "upstream_connection_error", "upstream_malformed_response",
    "upstream_authentication_failed", "upstream_error",
]

[semantic]
intent = "Look an order up."
actor = "agent"
outcome = "Status of the order is known."
capability = "retrieval"
confidence = 0.95
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
required = ["order_id"]
properties = { order_id = { type = "string" } }

[output_schema]
type = "object"
required = ["status"]
properties = { status = { type = "string" } }

[handler]
type = "external_service"
url = "https://api.example.com/v1/orders/{order_id}"
method = "GET"
headers = { Authorization = "Bearer ${ORDERS_TOKEN}" }
output_transform = { status = "order_state" }
error_map = { 404 = "order_unknown" }
timeout_seconds = 5
"""

RECIPE = """\
[[recipe]]
name = "book-and-order"
version = "1.0"
description = "Looks a book up, and the order for it."
output = { title = "=book.title", status = "=order.status" }

[[recipe.step]]
method = "QUERY"
path = "/library/{isbn}"
parameters = { isbn = "=input.isbn" }
capture = "book"
timeout = 5
retries = 2

[[recipe.step]]
method = "QUERY"
path = "/orders/{order_id}"
parameters = { order_id = "=input.order_id" }
capture = "order"
when = "=input.order_id"
on_error = "continue"
"""

COMPOSITION = """\
method = "QUERY"
path = "/summary"
description = "Returns a book and its order."
required_scopes = ["library:read", "orders:read"]
errors = ["composition_failed"]

[semantic]
intent = "Look a book and its order up."
actor = "agent"
outcome = "Title and status are known."
capability = "retrieval"
confidence = 0.9
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
required = ["isbn"]
properties = { isbn = { type = "string" }, order_id = { type = "string" } }

[output_schema]
type = "object"
properties = { title = { type = "string" }, status = { type = ["string", "null"] } }

[handler]
type = "composition"
recipe = "book-and-order"
"""

EXAMPLES: Mapping[str, str] = {
    "endpoints/library.toml": FUNCTION,
    "endpoints/orders.toml": SERVICE,
    "endpoints/summary.toml": COMPOSITION,
    "recipes.toml": RECIPE,
}
"""Files of one host."""

INTRODUCTION = """\
.. Written by docs/endpoint_reference.py from docs/endpoint-members.toml: correct those.

Endpoint files and recipe files: every member
=============================================

This page lists each member of the files in ``[endpoints] directory`` and of the file ``[recipes] file``, with type,
default and meaning. A file holds one endpoint, or several as ``[[endpoint]]`` tables. A member that is not listed is an
error; ``agtp check`` reports it with file and line. ``agtp endpoint new`` writes a file to begin with.

"""


def members() -> dict[str, dict[str, Any]]:
    """Return the texts of ``docs/endpoint-members.toml``, by table and member."""
    return tomllib.loads((DOCS / "endpoint-members.toml").read_text())


def endpoint_file() -> str:
    """Return the text of ``docs/endpoint-file.rst``."""
    texts = members()
    out = [INTRODUCTION, "Four files as examples\n----------------------\n\nThe tests load them as one host.\n\n"]
    for name, text in EXAMPLES.items():
        body = "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))
        out.append(f"``{name}``:\n\n.. code-block:: toml\n\n{body}\n")
    for table, (heading, required, optional) in TABLES.items():
        out.append(f"{heading}\n{'-' * len(heading)}\n\n")
        if table in LEADS:
            out.append(f"{LEADS[table]}\n\n")
        out += [_entry(name, texts[table][name], required=name in required) for name in (*required, *optional)]
    return "".join(out).rstrip("\n") + "\n"


def _entry(name: str, text: Mapping[str, str], *, required: bool) -> str:
    facts = [text["type"], *["required"] * required]
    if "default" in text:
        facts.append(f"default ``{text['default']}``")
    return f"``{name}``: {'; '.join(facts)}\n    {text['meaning']}\n\n"
