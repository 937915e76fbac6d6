"""One operation of an OpenAPI document: its input, its output, its errors and its upstream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from agtphost.contract.openapi.names import words_of
from agtphost.contract.openapi.upstream import TIMEOUT, Facts, Upstream
from agtphost.contract.semantic import FOR_TOOLS, MAX_TEXT
from agtphost.contract.service import UPSTREAM_ERRORS
from agtphost.contract.tool_names import hint_faults, is_tool_name

_PATH_PATTERNS = {"integer": "^-?[0-9]+$", "number": "^-?[0-9]+(\\.[0-9]+)?$", "boolean": "^(true|false)$"}
_CREDENTIALS = frozenset({"authorization", "accept", "content-type"})
"""Header parameters that OpenAPI says to ignore (OpenAPI 3.1 section 4.8.12.2)."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What an operation says, in the terms of an endpoint declaration."""

    operation_id: str
    summary: str
    creates: bool
    reviews: tuple[str, ...]
    losses: tuple[str, ...]
    _members: Mapping[str, Any]
    _semantic: Mapping[str, Any]

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """Of the endpoint."""
        found: Mapping[str, Any] = self._members["input_schema"]
        return found

    def table(self, method: str, path: str, capability: str) -> dict[str, Any]:
        """The declaration, under a method and path."""
        members = dict(self._members)
        handler = members.pop("handler")
        return {
            "method": method,
            "path": path,
            **members,
            "handler": handler,
            "semantic": {**self._semantic, "capability": capability},
            "input_schema": members["input_schema"],
            "output_schema": members["output_schema"],
        }


def read_operation(facts: Facts) -> Operation:
    """Read an operation; whatever it lacks is guessed, and said to be."""
    return _Reader(facts).read()


class _Reader:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._operation = facts.operation
        self._reviews: list[str] = []
        self._losses: Counter[str] = Counter()
        self._upstream = Upstream(facts=facts, reviews=self._reviews, losses=self._losses)

    def read(self) -> Operation:
        self._facts.converter.take_losses()
        operation = self._operation
        summary = _line(operation.get("summary"))
        name = _line(operation.get("operationId"))
        description = _sentence(operation.get("description")) or summary
        intent = summary or description or " ".join(words_of(name)).capitalize()
        if not summary:
            self._reviews.append("[intent] the document has no summary of this operation")
        fallback = f"{self._facts.http.upper()} {self._facts.source_path}"
        taken = self._input()
        outcome, given, creates = self._responses()
        errors, error_map = self._errors()
        impact, repeatable = self._impact()
        self._others()
        for_tools = self._for_tools(taken)
        self._losses.update(self._facts.converter.take_losses())
        members: dict[str, Any] = {
            "description": description or intent or fallback,
            "errors": errors,
            "required_scopes": [],
            "timeout": TIMEOUT + 5,
            "input_schema": taken,
            "output_schema": given,
            "handler": self._upstream.handler(error_map),
        }
        tags = operation.get("tags")
        if isinstance(tags, list) and tags and _line(tags[0]):
            members["namespace"] = _line(tags[0])
        if operation.get("deprecated") is True:
            members["deprecated"] = {"deprecated_in": "1.0"}
            self._reviews.append("[deprecated] the document says so, but not since when")
        self._reviews.append("[required_scopes] none: name what a caller has to be allowed")
        return Operation(
            operation_id=name,
            summary=summary,
            creates=creates,
            reviews=tuple(self._reviews),
            losses=tuple(sorted(self._losses)),
            _members=members,
            _semantic={
                "intent": intent or fallback,
                "actor": "agent",
                "outcome": outcome,
                "confidence": 0.5,
                "impact": impact,
                "is_idempotent": repeatable,
                **for_tools,
            },
        )

    def _for_tools(self, taken: Mapping[str, Any]) -> dict[str, Any]:
        """What an exported document says of the endpoint's tool among those of MCP, as far as it can be believed."""
        said = self._operation.get("x-agtp")
        block = said.get("semantic") if isinstance(said, Mapping) else None
        if not isinstance(block, Mapping):
            return {}
        found = {name: block[name] for name in FOR_TOOLS if name in block}
        if "mcp_tool_name" in found and not is_tool_name(found["mcp_tool_name"]):
            del found["mcp_tool_name"]
            self._losses["x-agtp: an mcp_tool_name that is none"] += 1
        hints = found.pop("parameter_hints", {})
        if any(hint_faults(hints)):
            self._losses["x-agtp: parameter_hints that are none"] += 1
        elif kept := {name: phrases for name, phrases in hints.items() if name in taken.get("properties", {})}:
            found["parameter_hints"] = kept
        return found

    def _impact(self) -> tuple[str, bool]:
        http = self._facts.http
        reading = http in ("get", "head", "options")
        impact = "informational" if reading else "irreversible" if http in ("post", "delete") else "reversible"
        if not reading:
            self._reviews.append(f"[impact] {impact}: a guess from {http.upper()}")
        return impact, reading or http in ("put", "delete")

    # Input

    def _input(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        # Those of the path first, whose names are given: whatever else is called so gets another.
        parameters = sorted(self._parameters(), key=lambda parameter: parameter["in"] != "path")
        placed = [parameter for parameter in parameters if parameter["in"] == "path"]
        for parameter in placed:
            self._parameter(parameter, properties, required)
        for name, safe in self._facts.path.parameters.items():
            if safe not in properties:
                properties[safe] = {"type": "string"}
                required.append(safe)
                self._reviews.append(f"[input_schema] the path's parameter {name!r} is declared nowhere")
        for parameter in parameters[len(placed) :]:
            self._parameter(parameter, properties, required)
        self._body(properties, required)
        schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
        if required:
            schema["required"] = list(dict.fromkeys(required))
        schema["properties"] = properties
        whole, said = self._facts.converter.complete(schema, "input")
        if said is not None:
            self._reviews.append(f"[input_schema] {said}")
        return whole

    def _parameters(self) -> Iterator[Mapping[str, Any]]:
        """Those of the path, overridden by the operation's own."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for listed in (self._facts.item.get("parameters"), self._operation.get("parameters")):
            for entry in listed if isinstance(listed, list) else ():
                parameter = self._facts.references.follow(entry)
                name, place = parameter.get("name"), parameter.get("in")
                if isinstance(name, str) and isinstance(place, str):
                    found[name, place] = parameter
                else:
                    self._losses["parameters that cannot be resolved"] += 1
        yield from found.values()

    def _parameter(self, parameter: Mapping[str, Any], properties: dict[str, Any], required: list[str]) -> None:
        name, place = parameter["name"], parameter["in"]
        if place == "cookie" or (place == "header" and name.lower() in _CREDENTIALS):
            self._losses[f"{place} parameters"] += place == "cookie"
            return
        schema = self._parameter_schema(parameter)
        if place not in ("path", "query", "header"):
            self._losses[f"{place[:16]} parameters"] += 1
            return
        if place == "path":
            safe = self._facts.path.parameters.get(name)
            if safe is None:
                self._losses["path parameters that the path does not have"] += 1
                return
            properties[safe] = self._text(schema, safe)
            required.append(safe)
            return
        if place == "header":
            self._losses["header parameters"] += 1
            wanted = "required" if parameter.get("required") is True else "optional"
            said = "no input goes into a header; [handler] headers may have a value for every caller"
            self._reviews.append(f"[handler.headers] {name!r} is {wanted}: {said}")
            return
        safe = self._free(name, place, properties)
        properties[safe] = schema
        self._upstream.queried.append(safe)
        if parameter.get("required") is True:
            required.append(safe)

    def _parameter_schema(self, parameter: Mapping[str, Any]) -> Any:
        schema = parameter.get("schema")
        content = parameter.get("content")
        if schema is None and isinstance(content, Mapping) and content:
            schema = self._facts.references.follow(next(iter(content.values()))).get("schema")
            self._losses["how parameters are serialized"] += 1
        converted = self._facts.converter.convert(schema if schema is not None else {})
        said = parameter.get("description")
        if isinstance(converted, dict) and isinstance(said, str) and "description" not in converted:
            return {**converted, "description": said}
        return converted

    def _text(self, schema: Any, name: str) -> dict[str, Any]:
        """A path parameter is text (AGTP-API section 5.3)."""
        kept = {"description": schema["description"]} if isinstance(schema, dict) and "description" in schema else {}
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(schema, dict) and kind == "string":
            return schema
        if isinstance(kind, str) and kind in _PATH_PATTERNS:
            self._reviews.append(f"[input_schema] the path's parameter {name!r} is {kind}, here as text")
            return {"type": "string", "pattern": _PATH_PATTERNS[kind], **kept}
        self._reviews.append(f"[input_schema] the path's parameter {name!r} is here any text")
        return {"type": "string", **kept}

    def _free(self, name: str, place: str, properties: Mapping[str, Any]) -> str:
        safe = name
        while safe in properties:
            safe = f"{place}_{safe}"
        if safe != name:
            self._upstream.renames[safe] = name
            self._reviews.append(f"[input_schema] {name!r} of the {place} is here {safe!r}: the name is taken")
        return safe

    def _body(self, properties: dict[str, Any], required: list[str]) -> None:
        body = self._facts.references.follow(self._operation.get("requestBody"))
        content = body.get("content")
        if not isinstance(content, Mapping) or not content:
            return
        if not self._facts.sends_body:
            self._losses["request bodies of methods that have none"] += 1
            self._reviews.append(
                f"[handler] no body is sent with {self._facts.http.upper()}, where the document has one"
            )
            return
        kind, schema = self._content(content)
        if "json" not in kind:
            self._reviews.append(f"[handler] the upstream takes {kind[:80]}, and the host would send JSON")
            self._losses["request bodies that are not JSON"] += 1
        else:
            self._upstream.headers["Content-Type"] = "application/json"
        resolved = self._facts.references.follow(schema) if isinstance(schema, Mapping) else {}
        gathered = self._gather(resolved, 0)
        if gathered is None:
            name = self._free("body", "body", properties)
            properties[name] = self._facts.converter.convert(schema if schema is not None else {})
            if body.get("required") is True:
                required.append(name)
            self._reviews.append(f"[input_schema] {name!r} stands for a whole body that is not an object of fields")
            return
        fields, needed, said = gathered
        self._reviews.extend(f"[input_schema] {sentence}" for sentence in dict.fromkeys(said))
        for name, inner in fields.items():
            if isinstance(inner, Mapping) and self._facts.references.follow(inner).get("readOnly") is True:
                self._losses["fields that the upstream only returns"] += 1
                continue
            safe = self._free(name, "body", properties)
            properties[safe] = self._facts.converter.convert(inner)
            if name in needed and body.get("required", True) is not False:
                required.append(safe)

    def _content(self, content: Mapping[str, Any]) -> tuple[str, Any]:
        """The media type to go on with, and its schema."""
        kinds = sorted(content, key=lambda kind: (kind != "application/json", "json" not in kind))
        if len(kinds) > 1:
            self._losses["further media types"] += len(kinds) - 1
        return kinds[0], self._facts.references.follow(content[kinds[0]]).get("schema")

    def _gather(self, schema: Mapping[str, Any], depth: int) -> tuple[dict[str, Any], set[str], list[str]] | None:
        """The fields of a body; None where it is no object of fields."""
        if depth > 8 or schema.get("type", "object") not in ("object", ["object"], ["object", "null"]):
            return None
        own = schema.get("properties")
        fields: dict[str, Any] = dict(own) if isinstance(own, Mapping) else {}
        names = schema.get("required")
        needed = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
        said: list[str] = []
        known = bool(fields)
        if schema.get("additionalProperties") not in (None, False):
            said.append("the upstream takes further fields of any name; here they are refused")
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            if not isinstance(parts, list) or not parts:
                continue
            gathered = [self._gather(self._facts.references.follow(part), depth + 1) for part in parts]
            inner = [part for part in gathered if part is not None]
            if len(inner) < len(gathered):
                if keyword == "allOf" and known:
                    continue
                return None
            known = True
            for part_fields, _, part_said in inner:
                fields = part_fields | fields
                said.extend(part_said)
            if keyword == "allOf":
                needed |= set().union(*(part_needed for _, part_needed, _ in inner))
            elif not own:
                needed |= set.intersection(*(part_needed for _, part_needed, _ in inner))
                said.append(f"the alternatives of {keyword} are merged: no field of one alone is required")
        if not known and (said or "properties" not in schema) and schema.get("type") != "object":
            return None
        return fields, needed & set(fields), said

    # Output and errors

    def _responses(self) -> tuple[str, dict[str, Any], bool]:
        """The outcome, the output's schema, and whether the operation creates something."""
        responses = self._operation.get("responses")
        table = responses if isinstance(responses, Mapping) else {}
        good = sorted(code for code in table if re.fullmatch(r"2(?:[0-9]{2}|XX)", str(code)))
        chosen = next((code for code in ("200", "201", *good) if code in table), "default")
        if len(good) > 1:
            self._losses["further successful responses"] += len(good) - 1
        response = self._facts.references.follow(table.get(chosen))
        outcome = _sentence(response.get("description"))
        described = "the document describes a response, not what is then true"
        self._reviews.append(f"[outcome] {described if outcome else 'not in the document'}")
        self._count(response, "headers", "response headers")
        self._count(response, "links", "links between operations")
        return outcome or "The upstream has done what was asked.", self._output(response, chosen), "201" in good

    def _output(self, response: Mapping[str, Any], code: str) -> dict[str, Any]:
        content = response.get("content")
        kind, schema = self._content(content) if isinstance(content, Mapping) and content else ("", None)
        if kind and "json" not in kind:
            self._reviews.append(f"[output_schema] the upstream answers {kind[:80]}, which is not JSON")
            self._losses["responses that are not JSON"] += 1
            schema = None
        if schema is None:
            if code not in ("204", "205"):
                self._reviews.append("[output_schema] the document does not describe it")
            return {"type": "object", "additionalProperties": True}
        converted = self._facts.converter.convert(self._facts.references.follow(schema) or schema)
        if not isinstance(converted, dict):
            converted = {}
        if converted.get("type", "object") != "object":
            self._reviews.append(f"[output_schema] the upstream answers {converted['type']}, not an object")
        if "properties" in converted and "additionalProperties" not in converted:
            converted = {**converted, "additionalProperties": True}
        whole, said = self._facts.converter.complete(converted, "output")
        if said is not None:
            self._reviews.append(f"[output_schema] {said}")
        return whole

    def _errors(self) -> tuple[list[str], dict[str, str]]:
        responses = self._operation.get("responses")
        mapped: dict[str, str] = {}
        for code in sorted(map(str, responses)) if isinstance(responses, Mapping) else ():
            if re.fullmatch(r"[45][0-9]{2}", code) is None:
                continue
            if code in ("401", "403"):
                # These are the binding's own upstream_authentication_failed.
                continue
            mapped[code] = error_name(code)
        if mapped:
            self._losses["the bodies of error responses"] += len(mapped)
            self._reviews.append("[errors] named after the HTTP status; better names say what went wrong")
        return [*dict.fromkeys((*mapped.values(), *UPSTREAM_ERRORS))], mapped

    def _others(self) -> None:
        self._count(self._operation, "callbacks", "callbacks")

    def _count(self, table: Mapping[str, Any], name: str, what: str) -> None:
        found = table.get(name)
        if isinstance(found, Mapping) and found:
            self._losses[what] += len(found)


def _line(value: Any) -> str:
    """One printable line of at most what a statement may have."""
    text = value if isinstance(value, str) else ""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 3] + "..."


def _sentence(value: Any) -> str:
    """The first paragraph of a text."""
    return _line(value.strip().partition("\n\n")[0]) if isinstance(value, str) else ""


def error_name(code: str) -> str:
    """What a refusal is called that has a status alone: ``not_found``."""
    try:
        phrase = HTTPStatus(int(code)).phrase
    except ValueError:
        return f"http_{code}"
    return re.sub(r"[^a-z0-9]+", "_", phrase.lower()).strip("_")
