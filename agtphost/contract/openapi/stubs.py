"""Function stubs for imported operations, to implement a service here instead of calling it (AGTP-API section B.2)."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agtphost.contract.openapi.importer import Imported, ImportedEndpoint
from agtphost.contract.service import UPSTREAM_ERRORS

NOT_IMPLEMENTED = "not_implemented"
"""The declared error that a stub raises until its body is written."""

WIDTH = 100
"""Characters of a docstring's line."""

_HEAD = '''"""
Handlers for the operations of {title}.

Each function answers one endpoint and raises ``{error}`` until its body is written.
"""

from __future__ import annotations

from typing import Any

from agtphost import EndpointContext, EndpointError
'''

_FUNCTION = '''

def {name}(ctx: EndpointContext) -> dict[str, Any]:
    """
    {endpoint}: {statement}

{members}    """
    raise EndpointError("{error}")
'''


def with_stubs(imported: Imported, module: str) -> tuple[Imported, str]:
    """
    Return endpoints that registered functions answer, and the module of these functions.

    :param module: the name by which the host will import it.
    :return: the endpoints with their new handlers, and Python source.
    """
    taken: set[str] = set()
    endpoints: list[ImportedEndpoint] = []
    source = _HEAD.format(title=_plain(imported.title), error=NOT_IMPLEMENTED)
    for endpoint in imported.endpoints:
        name = _free(endpoint, taken)
        endpoints.append(replace(endpoint, table=_with_function_handler(endpoint.table, f"{module}.{name}")))
        source += _function(endpoint, name)
    return replace(imported, endpoints=tuple(endpoints)), source


def _with_function_handler(table: Mapping[str, Any], function: str) -> dict[str, Any]:
    errors = [name for name in table.get("errors", ()) if name not in UPSTREAM_ERRORS]
    handler = {"type": "registered_function", "function": function}
    return {**table, "errors": [*errors, NOT_IMPLEMENTED], "handler": handler}


def _free(endpoint: ImportedEndpoint, taken: set[str]) -> str:
    """Return a unique function name that identifies the endpoint."""
    words = re.findall(r"[a-z0-9]+", f"{endpoint.method} {endpoint.path}".lower())
    name = stem = "_".join(words) + ("_" if keyword.iskeyword("_".join(words)) else "")
    number = 2
    while name in taken:
        name = f"{stem}_{number}"
        number += 1
    taken.add(name)
    return name


def _function(endpoint: ImportedEndpoint, name: str) -> str:
    lines = list(_members(endpoint.table))
    return _FUNCTION.format(
        name=name,
        endpoint=f"{endpoint.method} {endpoint.path}",
        statement=_plain(str(endpoint.table.get("description", ""))),
        members="".join(f"    {line}\n" for line in lines),
        error=NOT_IMPLEMENTED,
    )


def _members(table: Mapping[str, Any]) -> Iterator[str]:
    given = table.get("input_schema", {})
    required = given.get("required", ())
    for name, schema in given.get("properties", {}).items():
        kind = schema.get("type", "any") if isinstance(schema, Mapping) else "any"
        kind = kind if isinstance(kind, str) else " or ".join(map(str, kind))
        yield _plain(f"``ctx.input[{name!r}]``: {kind}{'' if name in required else ', optional'}")


def _plain(text: str) -> str:
    """Return a text as one line that is safe in a docstring."""
    line = " ".join(text.replace("\\", "/").replace('"', "'").split())
    printable = "".join(character for character in line if character.isprintable())
    return printable if len(printable) <= WIDTH else printable[: WIDTH - 3] + "..."
