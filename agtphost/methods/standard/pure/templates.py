"""
GENERATE without a model: text of a template, documentation of an OpenAPI document, example data of a JSON Schema
(methods v01 section 4.12).

A template's ``{place}`` is replaced by the value of that name, and ``{{`` and ``}}`` are braces; a template is never
evaluated. In HTML and Markdown values are escaped: they are foreign data.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material
from agtphost.methods.standard.pure.transform import callers_schema
from agtphost.vocabulary.reasons import Reason

OUTPUTS = ("text", "code", "json", "html", "markdown")
WISHES = ("format", "length", "style")
"""Parameters that say how the content is to be, besides its type: templates and documents are as they are."""

MAX_TEMPLATE = 65_536
MAX_OUTPUT = 262_144
MAX_OPERATIONS = 300
MAX_DEPTH = 8
MAX_MEMBERS = 500
"""Members of an example."""

_PART = re.compile(r"\{\{|\}\}|\{([^{}]{1,256})\}|[{}]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~-])")
_HTTP = ("get", "post", "put", "patch", "delete", "options", "head", "trace")


def generate(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of GENERATE where no model is needed.

    :param call: ``output_type``; ``source``: ``{"template": ..., "values": {...}}`` for text, HTML and Markdown; an
        OpenAPI document for Markdown and HTML; a JSON Schema for JSON.
    :raises Refusal: 422 for a source that cannot be used; 503 for what only a provider can make: code, and all that
        has no such source.
    """
    kind = parameters.choice(call, "output_type", OUTPUTS)
    source = call.get("source")
    content: Any = None
    if isinstance(source, Mapping) and kind != "code":
        if "template" in source and kind != "json":
            content = _fill_template(source, kind)
        elif isinstance(source.get("openapi"), str) and kind in ("markdown", "html"):
            content = _documentation(source)
            content = _as_html(content) if kind == "html" else content
        elif kind == "json" and ("$schema" in source or isinstance(source.get("properties"), Mapping)):
            content = _example_of(source)
    if content is None:
        raise Refusal(
            Reason.PROVIDER_MISSING,
            f"Making {kind} of this source needs a provider, and none is bound.",
            details={"method": "GENERATE", "parameter": "source"},
        )
    if isinstance(content, str) and len(content) > MAX_OUTPUT:
        raise parameters.invalid("source", f"It is longer than {MAX_OUTPUT} characters.", "Send less.")
    # Parameters that need a provider are reported as ignored.
    left = [name for name in WISHES if name in call]
    return {"content": content, "output_type": kind, **({"not_applied": left} if left else {})}


def _fill_template(source: Mapping[str, Any], kind: str) -> str:
    template = material.text(source, "template", MAX_TEMPLATE)
    values = source.get("values", {})
    if not isinstance(values, Mapping):
        raise parameters.invalid(
            "source", "values of source is not an object.", 'Send {"template": "...", "values": {}}.'
        )
    parts: list[str] = []
    length = last = 0
    for match in _PART.finditer(template):
        parts.append(template[last : match.start()])
        parts.append(_part(match, values, kind))
        last = match.end()
        length += len(parts[-1]) + len(parts[-2])
        if length > MAX_OUTPUT:
            raise parameters.invalid("source", f"It is longer than {MAX_OUTPUT} characters.", "Send less.")
    return "".join((*parts, template[last:]))


def _part(match: re.Match[str], values: Mapping[str, Any], kind: str) -> str:
    if match[0] in ("{{", "}}"):
        return match[0][0]
    place = (match[1] or "").strip()
    if not material.is_place(place):
        raise parameters.invalid("source", "The template has a brace without a name.", "Write {{ for a literal brace.")
    value = material.at(values, place)
    if value is material.MISSING:
        raise parameters.invalid(
            "source", f"values has no {place[:64]!r}.", "Send the value, or remove the name from the template."
        )
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return html.escape(said) if kind == "html" else escape_markdown(said) if kind == "markdown" else said


def escape_markdown(text: str) -> str:
    """Escape foreign text for Markdown, as one paragraph without markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


# Documentation


def _documentation(document: Mapping[str, Any]) -> str:
    """Endpoints, parameters and example payloads of an OpenAPI document, in Markdown."""
    info = document.get("info")
    info = info if isinstance(info, Mapping) else {}
    lines = [f"# {escape_markdown(str(info.get('title', 'API')))}", ""]
    if info.get("version"):
        lines += [f"Version {escape_markdown(str(info['version']))}.", ""]
    if info.get("description"):
        lines += [escape_markdown(str(info["description"])), ""]
    for count, (method, path, operation) in enumerate(_operations(document)):
        if count >= MAX_OPERATIONS:
            raise parameters.invalid("source", f"source has more than {MAX_OPERATIONS} operations.", "Send less.")
        lines += _operation(document, method, path, operation)
    return "\n".join(lines).rstrip() + "\n"


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    paths = document.get("paths")
    if not isinstance(paths, Mapping) or not paths:
        raise parameters.invalid("source", "The OpenAPI document has no paths.", "Send one that has.")
    for path, item in paths.items():
        shared = item.get("parameters", []) if isinstance(item, Mapping) else []
        for method in _HTTP:
            operation = item.get(method) if isinstance(item, Mapping) else None
            if isinstance(operation, Mapping):
                own = operation.get("parameters", [])
                both = [*(shared if isinstance(shared, list) else []), *(own if isinstance(own, list) else [])]
                yield method.upper(), str(path), {**operation, "parameters": both}


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> list[str]:
    lines = [f"## {method} `{path.replace('`', '')}`", ""]
    for name in ("summary", "description"):
        if operation.get(name):
            lines += [escape_markdown(str(operation[name])), ""]
    rows = [_resolve_reference(document, each) for each in operation["parameters"]]
    if rows:
        lines += ["| Parameter | In | Type | Required | Description |", "|---|---|---|---|---|"]
        lines += [_row(document, row) for row in rows if isinstance(row, Mapping)] + [""]
    for title, schema in _payloads(document, operation):
        example = json.dumps(_example(document, schema, 1, [MAX_MEMBERS]), indent=2, ensure_ascii=False)
        lines += [f"{title}:", "", "```json", example.replace("```", "` ` `"), "```", ""]
    return lines


def _row(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    schema = _resolve_reference(document, row.get("schema"))
    kind = schema.get("type", "") if isinstance(schema, Mapping) else ""
    cells = (row.get("name", ""), row.get("in", ""), kind, "yes" if row.get("required") else "no")
    return f"| {' | '.join(escape_markdown(str(cell)) for cell in (*cells, row.get('description', '')))} |"


def _payloads(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    body = _resolve_reference(document, operation.get("requestBody"))
    if (schema := _json_schema(body)) is not None:
        yield "Example of a request", schema
    responses = operation.get("responses")
    for status, response in responses.items() if isinstance(responses, Mapping) else ():
        if (schema := _json_schema(_resolve_reference(document, response))) is not None:
            yield f"Example of an answer with {escape_markdown(str(status))}", schema
            return


def _json_schema(holder: Any) -> Any:
    content = holder.get("content") if isinstance(holder, Mapping) else None
    media = content.get("application/json") if isinstance(content, Mapping) else None
    return media.get("schema") if isinstance(media, Mapping) else None


def _resolve_reference(document: Any, value: Any) -> Any:
    """Resolve a reference within the document; no other document is read."""
    for _ in range(MAX_DEPTH):
        if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
            return value
        found: Any = document
        pointer = value["$ref"]
        if not pointer.startswith("#/"):
            return {}
        for token in pointer[2:].split("/"):
            found = found.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        value = found
    return {}


# Examples


def _example_of(schema: Mapping[str, Any]) -> Any:
    compiled = callers_schema(schema, "source")
    found = _example(schema, schema, 1, [MAX_MEMBERS])
    if not compiled.is_valid(found):
        raise Refusal(
            Reason.PROVIDER_MISSING,
            "An example that follows all of this schema needs a provider, and none is bound.",
            details={"method": "GENERATE", "parameter": "source", "faults": compiled.faults(found)},
        )
    return found


_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "host.example.com",
}


def _example(document: Any, schema: Any, depth: int, left: list[int]) -> Any:
    """Return a value that a schema allows, by its types, formats, limits and lists of values."""
    schema = _resolve_reference(document, schema)
    left[0] -= 1
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH or left[0] < 0:
        return None
    for name in ("example", "default", "const"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    for name in ("oneOf", "anyOf", "allOf"):
        if isinstance(schema.get(name), list) and schema[name]:
            return _put_together(document, schema, name, depth, left)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "object":
            members = schema.get("properties")
            items = members.items() if isinstance(members, Mapping) else ()
            return {name: _example(document, inner, depth + 1, left) for name, inner in items}
        case "array":
            least = schema.get("minItems", 1)
            count = least if isinstance(least, int) and 1 <= least <= 10 else 1
            return [_example(document, schema.get("items", {}), depth + 1, left) for _ in range(count)]
        case "integer" | "number":
            return _number(schema, whole=kind == "integer")
        case "boolean":
            return True
        case "null":
            return None
    return _word(schema)


def _put_together(document: Any, schema: Mapping[str, Any], name: str, depth: int, left: list[int]) -> Any:
    if name != "allOf":
        return _example(document, schema[name][0], depth + 1, left)
    whole: dict[str, Any] = {}
    rest = {key: inner for key, inner in schema.items() if key != "allOf"}
    for part in (*schema["allOf"], rest):
        found = _example(document, {"type": "object", **part} if part is rest else part, depth + 1, left)
        if isinstance(found, Mapping):
            whole.update(found)
    return whole


def _number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    least = material.number(schema.get("minimum"))
    above = material.number(schema.get("exclusiveMinimum"))
    most = material.number(schema.get("maximum"))
    value = (
        least if least is not None else above + 1 if above is not None else min(most, 1.0) if most is not None else 1.0
    )
    return int(value) if whole or value == int(value) else value


def _word(schema: Mapping[str, Any]) -> str:
    text = _FORMATS.get(str(schema.get("format")), "text")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least <= 1000:
        text += "x" * (least - len(text))
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _as_html(markdown: str) -> str:
    """Convert the documentation to HTML; it must be what :func:`_documentation` writes."""
    out: list[str] = []
    state = ""
    for line in markdown.splitlines():
        if line.startswith("```"):
            out.append("</code></pre>" if state == "code" else "<pre><code>")
            state = "" if state == "code" else "code"
        elif state == "code":
            out.append(html.escape(line))
        elif line.startswith("|"):
            if state != "table":
                out.append("<table>")
                state = "table"
            cells = [_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            if not all(set(cell) <= {"-"} and cell for cell in cells):
                out.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        else:
            if state == "table":
                out.append("</table>")
                state = ""
            level = len(line) - len(line.lstrip("#"))
            if 0 < level <= 2 and line[level : level + 1] == " ":
                out.append(f"<h{level}>{_plain(line[level + 1 :])}</h{level}>")
            elif line:
                out.append(f"<p>{_plain(line)}</p>")
    return "\n".join(out) + "\n"


def _plain(text: str) -> str:
    return html.escape(re.sub(r"\\([\\`*_{}\[\]()#+!|<>~-])", r"\1", text.replace("`", "")))
