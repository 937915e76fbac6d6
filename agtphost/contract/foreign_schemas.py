"""Whether what other hosts publish is JSON Schema 2020-12, and refers to nothing outside (AGTP-API section 6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from agtphost.contract.schema_references import BASE, join


def remote_references(schema: Any) -> Iterator[str]:
    """What a schema refers to outside itself: addresses that none of its ``$id`` is."""
    addresses, references = set[str | None](), list[tuple[str, str | None]]()
    waiting: list[tuple[Any, str]] = [(schema, BASE)]
    while waiting:
        item, base = waiting.pop()
        if isinstance(item, Mapping):
            if isinstance(item.get("$id"), str):
                base = join(base, item["$id"].partition("#")[0]) or base
                addresses.add(base)
            for keyword in ("$ref", "$dynamicRef"):
                reference = item.get(keyword)
                if isinstance(reference, str) and not reference.startswith("#"):
                    references.append((reference, join(base, reference.partition("#")[0])))
            waiting.extend((value, base) for value in item.values())
        elif isinstance(item, list):
            waiting.extend((value, base) for value in item)
    yield from (reference for reference, address in references if address not in addresses)


def schema_error(schema: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """Where a schema breaks its dialect, and how; None where it does not."""
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        return tuple(error.instance_path), error.message.partition("\n")[0][:160]
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return (), str(error).partition("\n")[0][:160]
    return None
