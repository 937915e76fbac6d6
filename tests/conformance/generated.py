"""A host's directory of generated endpoints: many methods, paths and schemas, one handler behind them all."""

from __future__ import annotations

import json
from pathlib import Path

METHODS = ("FETCH", "SEARCH", "RANK", "TRANSLATE", "VALIDATE", "CLASSIFY", "EXTRACT", "FILTER", "CALCULATE", "EVALUATE")
SCOPES = ((), ("documents:query",), ("knowledge:query",), ("calendar:read",), ("payments:refund",))

PROPERTIES = (
    {"text": {"type": "string", "minLength": 2, "maxLength": 40}},
    {"count": {"type": "integer", "minimum": 1, "maximum": 9}},
    {"color": {"type": "string", "enum": ["red", "green", "blue"]}, "exact": {"type": "boolean"}},
    {"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}},
    {"share": {"type": "number", "minimum": 0, "maximum": 1}, "day": {"type": "string", "format": "date"}},
    {"tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 4}},
    {"where": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "maxLength": 30}}}},
)

HANDLER = '''"""The one handler of every generated endpoint."""

from agtphost import EndpointContext, EndpointError


def answer(ctx: EndpointContext):
    """Say what arrived, or fail by name where the input asks for it."""
    if ctx.input.get("text") == "xx":
        return EndpointError("not_today", {})
    return {"members": sorted(ctx.input)}
'''


def _inline(value: object) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_inline(member)}" for name, member in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def definition(number: int) -> str:
    """One ``[[endpoint]]``."""
    properties: dict[str, object] = dict(PROPERTIES[number % len(PROPERTIES)])
    required = [next(iter(properties))]
    path = f"/generated/shelf-{number}"
    if number % 3 == 1:
        path += "/{item}"
        properties["item"] = {"type": "string", "pattern": "^[a-z0-9]{1,12}$"}
        required.append("item")
    schema = {"type": "object", "additionalProperties": False, "required": required, "properties": properties}
    members = {"type": "array", "items": {"type": "string"}}
    result = {"type": "object", "required": ["members"], "properties": {"members": members}}
    lines = [
        "[[endpoint]]",
        f'method = "{METHODS[number % len(METHODS)]}"',
        f'path = "{path}"',
        f'description = "Generated endpoint number {number}."',
        'namespace = "generated"',
        'errors = ["not_today"]',
        f"required_scopes = {_inline(SCOPES[number % len(SCOPES)])}",
        'handler = { type = "registered_function", function = "handlers.generated.answer" }',
        f"input_schema = {_inline(schema)}",
        f"output_schema = {_inline(result)}",
        "",
        "[endpoint.semantic]",
        f'intent = "Answer the generated question {number}."',
        'actor = "agent"',
        'outcome = "The caller knows what arrived."',
        'capability = "retrieval"',
        "confidence = 0.9",
        'impact = "informational"',
        "is_idempotent = true",
    ]
    return "\n".join(lines) + "\n"


def generate(config: Path, count: int, *, files: int = 20) -> None:
    """
    Add endpoints to a copy of the sample host.

    :param config: its ``host.toml``.
    :param files: TOML files that they are spread over.
    """
    directory = config.parent
    (directory / "handlers" / "generated.py").write_text(HANDLER)
    for file in range(files):
        text = "\n".join(definition(number) for number in range(file, count, files))
        (directory / "endpoints" / f"generated_{file:02}.toml").write_text(text)
