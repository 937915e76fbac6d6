"""Whether what other hosts publish is JSON Schema 2020-12, and refers to nothing outside (AGTP-API section 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs


def remote_references(schema: Any) -> Iterator[str]:
    """What a schema refers to outside itself."""
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            reference = item.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield reference
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def schema_error(schema: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """Where a schema breaks its dialect, and how; None where it does not."""
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        return tuple(error.instance_path), error.message.partition("\n")[0][:160]
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return (), str(error).partition("\n")[0][:160]
    return None
