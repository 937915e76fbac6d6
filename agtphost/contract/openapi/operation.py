"""An operation of an OpenAPI document: its input, output, errors and upstream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from agtphost.contract.openapi.bodies import choose_content, media_type
from agtphost.contract.openapi.inputs import InputReader
from agtphost.contract.openapi.names import words_of
from agtphost.contract.openapi.prose import strip_html
from agtphost.contract.openapi.upstream import TIMEOUT, Facts, Upstream
from agtphost.contract.semantic import FOR_TOOLS, MAX_TEXT
from agtphost.contract.service import UPSTREAM_ERRORS
from agtphost.contract.tool_names import hint_faults, is_tool_name

NO_BODY = ("204", "205")
"""Statuses whose answers have no body."""


@dataclass(frozen=True, kw_only=True)
class ImportedOperation:
    """An operation in the terms of an endpoint declaration."""

    operation_id: str
    summary: str
    description: str
    """The first paragraph, or the summary; one line without HTML."""

    creates: bool
    reviews: tuple[str, ...]
    losses: tuple[str, ...]
    _members: Mapping[str, Any]
    _semantic: Mapping[str, Any]

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """Return the endpoint's input schema."""
        found: Mapping[str, Any] = self._members["input_schema"]
        return found

    def table(self, method: str, path: str, capability: str) -> dict[str, Any]:
        """Return the declaration with a method and path."""
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


def read_operation(facts: Facts) -> ImportedOperation:
    """Read an operation; missing parts are guessed and marked for review."""
    return _OperationReader(facts).read()


class _OperationReader:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._operation = facts.operation
        self._reviews: list[str] = []
        self._losses: Counter[str] = Counter()
        self._upstream = Upstream(facts=facts, reviews=self._reviews, losses=self._losses)

    def read(self) -> ImportedOperation:
        self._facts.converter.take_losses()
        operation = self._operation
        summary = _line(operation.get("summary"))
        name = _line(operation.get("operationId"))
        description = _sentence(operation.get("description")) or summary
        intent = summary or description or " ".join(words_of(name)).capitalize()
        if not summary:
            self._reviews.append("[intent] the document has no summary of this operation")
        fallback = f"{self._facts.http.upper()} {self._facts.source_path}"
        self._upstream.read_security()
        taken = InputReader(self._facts, self._upstream, self._reviews, self._losses).read()
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
            self._reviews.append("[deprecated] the document marks it as deprecated, but not since when")
        self._reviews.append("[required_scopes] none: list the scopes that a caller needs")
        return ImportedOperation(
            operation_id=name,
            summary=summary,
            description=description,
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
        """Return the valid members about the endpoint's MCP tool that an exported document has."""
        said = self._operation.get("x-agtp")
        block = said.get("semantic") if isinstance(said, Mapping) else None
        if not isinstance(block, Mapping):
            return {}
        found = {name: block[name] for name in FOR_TOOLS if name in block}
        if "mcp_tool_name" in found and not is_tool_name(found["mcp_tool_name"]):
            del found["mcp_tool_name"]
            self._losses["x-agtp: an invalid mcp_tool_name"] += 1
        hints = found.pop("parameter_hints", {})
        if any(hint_faults(hints)):
            self._losses["x-agtp: invalid parameter_hints"] += 1
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

    # Output and errors

    def _responses(self) -> tuple[str, dict[str, Any], bool]:
        """Return the outcome, the output's schema, and whether the operation creates something."""
        responses = self._operation.get("responses")
        table = responses if isinstance(responses, Mapping) else {}
        good = sorted(code for code in table if re.fullmatch(r"2(?:[0-9]{2}|XX)", str(code)))
        chosen = next((code for code in ("200", "201", *good) if code in table), "default")
        if len(good) > 1:
            self._losses["further successful responses"] += len(good) - 1
        moved = sorted(str(code) for code in table if re.fullmatch(r"3(?:[0-9]{2}|XX)", str(code)))
        if moved and not good and "default" not in table:
            # Other answers than 2xx are failures of the upstream, though this one may have done what was asked.
            self._reviews.append(
                f"[errors] success is a redirect ({', '.join(moved)}), which no call follows: its caller gets "
                "upstream_error; use an operation that answers with 2xx"
            )
        response = self._facts.references.follow(table.get(chosen))
        bodies = {code: self._facts.references.follow(table.get(code)).get("content") for code in good or ["default"]}
        empty = any(not body for code, body in bodies.items() if str(code) not in NO_BODY)
        self._upstream.empty_response = empty and self._facts.http != "head"
        outcome = _sentence(response.get("description"))
        described = "the document describes the response, not the outcome"
        self._reviews.append(f"[outcome] {described if outcome else 'not in the document'}")
        self._count(response, "headers", "response headers")
        self._count(response, "links", "links between operations")
        return outcome or "The upstream completed the request.", self._output(response, chosen), "201" in good

    def _output(self, response: Mapping[str, Any], code: str) -> dict[str, Any]:
        # Bitbucket declares a body of a 204; HTTP has none, and what the host makes of it is an empty object.
        content = None if str(code) in NO_BODY else response.get("content")
        kind, schema = (
            choose_content(content, self._facts.references, self._losses)
            if isinstance(content, Mapping) and content
            else ("", None)
        )
        if kind and "json" not in kind:
            self._reviews.append(f"[output_schema] the upstream answers with {kind[:80]}, which is not JSON")
            self._losses["responses that are not JSON"] += 1
            schema = None
        elif kind and "*" not in kind and media_type(kind) != "application/json":
            self._upstream.headers["Accept"] = media_type(kind)
        if schema is None:
            if str(code) not in NO_BODY:
                self._reviews.append("[output_schema] the document does not describe the output")
            return {"type": "object", "additionalProperties": True}
        converted = self._facts.converter.convert(self._facts.references.follow(schema) or schema)
        if not isinstance(converted, dict):
            converted = {}
        if converted.get("type", "object") != "object":
            self._reviews.append(f"[output_schema] the upstream answers with {converted['type']}, not an object")
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
                # The binding kind's own upstream_authentication_failed covers these.
                continue
            mapped[code] = error_name(code)
        if mapped:
            self._losses["the bodies of error responses"] += len(mapped)
            self._reviews.append("[errors] named after the HTTP status; replace them by names of the failure")
        return [*dict.fromkeys((*mapped.values(), *UPSTREAM_ERRORS))], mapped

    def _others(self) -> None:
        self._count(self._operation, "callbacks", "callbacks")

    def _count(self, table: Mapping[str, Any], name: str, what: str) -> None:
        found = table.get(name)
        if isinstance(found, Mapping) and found:
            self._losses[what] += len(found)


def _line(value: Any) -> str:
    """Return a text as one printable line of limited length."""
    text = strip_html(value) if isinstance(value, str) else ""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 3] + "..."


def _sentence(value: Any) -> str:
    """Return the first paragraph of a text."""
    return _line(strip_html(value).partition("\n\n")[0]) if isinstance(value, str) else ""


def error_name(code: str) -> str:
    """Return the name of an error by its status: ``not_found``."""
    try:
        phrase = HTTPStatus(int(code)).phrase
    except ValueError:
        return f"http_{code}"
    return re.sub(r"[^a-z0-9]+", "_", phrase.lower()).strip("_")
