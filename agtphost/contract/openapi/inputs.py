"""The input of an operation of an OpenAPI document: parameters and body as one closed object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.contract.openapi.bodies import (
    FILE_SCHEMA,
    body_format,
    choose_content,
    is_binary,
    is_text,
    member_encoding,
    parameter_encoding,
)
from agtphost.contract.openapi.fields import BodyFields, FieldGatherer, is_read_only
from agtphost.contract.openapi.http_methods import GRAMMAR
from agtphost.contract.openapi.prose import strip_html
from agtphost.contract.openapi.upstream import Facts, Upstream
from agtphost.contract.request_format import header_input_fault
from agtphost.contract.service import header_name_faults
from agtphost.vocabulary.paths import bare

MOST_TYPES = 4
"""Further media types of a body that a line for review names."""

_PATH_PATTERNS = {"integer": "^-?[0-9]+$", "number": "^-?[0-9]+(\\.[0-9]+)?$", "boolean": "^(true|false)$"}
_IGNORED = frozenset({"authorization", "accept", "content-type"})
"""Header parameters that importers must ignore (OpenAPI 3.1 section 4.8.12.2)."""


_NO_NAMES = frozenset({"date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"})
"""Formats of text that no method's name has."""


class InputReader:
    """
    Builder of the input schema of one operation; it also sets where the upstream gets each member.

    :param upstream: the handler table to fill.
    :param reviews: list for what a person has to review.
    :param losses: counts what is lost.
    """

    def __init__(self, facts: Facts, upstream: Upstream, reviews: list[str], losses: Counter[str]) -> None:
        self._facts = facts
        self._operation = facts.operation
        self._upstream = upstream
        self._reviews = reviews
        self._losses = losses
        self._gatherer = FieldGatherer(facts.references, losses)

    def read(self) -> dict[str, Any]:
        """Return the schema, in the fullest form that the host accepts."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        # Path parameters come first, because their names are fixed; others with the same name are renamed.
        parameters = sorted(self._parameters(), key=lambda parameter: parameter["in"] != "path")
        placed = [parameter for parameter in parameters if parameter["in"] == "path"]
        for parameter in placed:
            self._parameter(parameter, properties, required)
        for name, safe in self._facts.path.parameters.items():
            if safe not in properties:
                properties[safe] = {"type": "string"}
                required.append(safe)
                self._reviews.append(f"[input_schema] the path's parameter {name!r} is not declared")
        self._review_names(properties)
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

    def _review_names(self, properties: Mapping[str, Any]) -> None:
        """Name the values of path parameters that no call can have, because they are names of methods."""
        free: list[str] = []
        for name, schema in properties.items():
            values = schema.get("enum", [schema["const"]] if "const" in schema else None)
            if isinstance(values, list):
                lost = [value for value in values if isinstance(value, str) and bare(value) in self._facts.methods]
                if lost:
                    listed = ", ".join(map(repr, lost[:8]))
                    self._reviews.append(f"[path] {name!r} cannot be {listed}: a method's name in a path is 460")
            elif "pattern" not in schema and schema.get("format") not in _NO_NAMES:
                free.append(name)
        if free:
            named = ", ".join(map(repr, free))
            self._reviews.append(f"[path] {named} cannot be a method's name, such as 'search': in a path that is 460")

    def _parameters(self) -> Iterator[Mapping[str, Any]]:
        """Yield the parameters of the path item, overridden by the operation's own."""
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
        needed = parameter.get("required") is True
        if place == "header" and name.lower() in _IGNORED:
            if needed and name.lower() == "authorization" and "Authorization" not in self._upstream.headers:
                said = "it is required, but security names no credential; set one in [handler] headers"
                self._reviews.append(f"[handler.headers] {name!r} is a parameter of the document: {said}")
            return
        if place not in ("path", "query", "header"):
            self._losses[f"{place[:16]} parameters"] += 1
            if needed:
                said = "no input can be sent there; set a value for all callers in [handler] headers"
                self._reviews.append(f"[handler.headers] {name!r} of the {place[:16]} is required: {said}")
            return
        if place == "path":
            self._path_parameter(parameter, properties, required)
            return
        if place == "query":
            safe: str | None = self._free(name, place, properties)
        else:
            fixed = (needed or name == GRAMMAR) and self._fixed_header(parameter)
            safe = None if fixed else self._header_input(name, needed, properties)
        if safe is None:
            return
        properties[safe] = self._parameter_schema(parameter)
        if place == "query":
            self._upstream.queried.append(safe)
        if parameter.get("allowReserved") is True:
            self._losses["allowReserved: reserved characters are percent-encoded"] += 1
        if encoding := parameter_encoding(parameter, self._facts.references):
            self._upstream.encoding[safe] = encoding
            if encoding.get("style", "deepObject") != "deepObject":
                self._review_nested(safe, properties[safe])
        if needed:
            required.append(safe)

    def _review_nested(self, name: str, schema: Any) -> None:
        """Name the members of a parameter that its style does not define (OpenAPI 3.1 section 4.8.12.4)."""
        inner = schema.get("properties") if isinstance(schema, dict) else None
        nested = [
            member
            for member, of_it in (inner.items() if isinstance(inner, dict) else ())
            if isinstance(of_it, dict) and (of_it.get("type") in ("array", "object") or "properties" in of_it)
        ]
        if nested:
            listed = ", ".join(map(repr, nested[:8]))
            self._reviews.append(
                f"[handler.encoding] {listed} of {name!r}: no style is for nested values; sent as JSON"
            )

    def _path_parameter(self, parameter: Mapping[str, Any], properties: dict[str, Any], required: list[str]) -> None:
        name = parameter["name"]
        safe = self._facts.path.parameters.get(name)
        if safe is None:
            self._losses["path parameters that the path does not have"] += 1
            return
        if parameter.get("style", "simple") != "simple":
            self._reviews.append(
                f"[input_schema] the path's parameter {name!r} has a style, which the caller has to apply"
            )
        properties[safe] = self._text(self._parameter_schema(parameter), safe)
        required.append(safe)

    def _fixed_header(self, parameter: Mapping[str, Any]) -> bool:
        """
        Add a header field with a single possible value to the host's headers; return whether the parameter is one.
        """
        name = parameter["name"]
        schema = self._facts.references.follow(parameter.get("schema"))
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if not isinstance(values, list) or len(values) != 1 or any(header_name_faults(name)):
            return False
        value = values[0]
        fine = isinstance(value, str) and value.isascii() and value.isprintable() and value.strip() == value != ""
        if not fine or header_input_fault(name) is not None or "${" in value or value.startswith(("env:", "file:")):
            return False
        self._upstream.headers[name] = value
        return True

    def _header_input(self, name: str, needed: bool, properties: Mapping[str, Any]) -> str | None:
        """Return our name of a header parameter; None if callers may not set it."""
        fault = next(iter(header_name_faults(name)), None) or header_input_fault(name)
        sent = {field.lower() for field in (*self._upstream.headers, *self._upstream.input_headers.values())}
        if fault is None and name.lower() in sent:
            return None  # It is a credential of the host, which `security` names too.
        if fault is not None:
            wanted = "required" if needed else "optional"
            why = fault.removeprefix(f": {name} ").strip()
            said = f"it {why}; set a value for all callers in [handler] headers"
            self._reviews.append(f"[handler.headers] {name[:64]!r} is {wanted}, but is not an input: {said}")
            self._losses["header parameters that callers may not set"] += 1
            return None
        safe = name
        while safe in properties:
            safe = f"header_{safe}"
        if safe != name:
            self._reviews.append(
                f"[input_schema] {name!r} of the header is renamed to {safe!r}, because the name is taken"
            )
        self._upstream.input_headers[safe] = name
        return safe

    def _parameter_schema(self, parameter: Mapping[str, Any]) -> Any:
        schema = parameter.get("schema")
        content = parameter.get("content")
        if schema is None and isinstance(content, Mapping) and content:
            kind = next(iter(content))
            schema = self._facts.references.follow(content[kind]).get("schema")
            if "json" not in kind:
                self._reviews.append(f"[input_schema] {parameter['name']!r} is {kind[:80]}, but is sent as JSON")
        converted = self._facts.converter.convert(schema if schema is not None else {})
        said = strip_html(parameter.get("description"))
        if isinstance(converted, dict) and isinstance(said, str) and "description" not in converted:
            return {**converted, "description": said}
        return converted

    def _text(self, schema: Any, name: str) -> dict[str, Any]:
        """Return the schema of a path parameter as text (AGTP-API section 5.3)."""
        kept = {"description": schema["description"]} if isinstance(schema, dict) and "description" in schema else {}
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(schema, dict) and kind == "string":
            return schema
        if isinstance(kind, str) and kind in _PATH_PATTERNS:
            self._reviews.append(f"[input_schema] the path's parameter {name!r} is {kind}, and is declared as text")
            return {"type": "string", "pattern": _PATH_PATTERNS[kind], **kept}
        self._reviews.append(f"[input_schema] the path's parameter {name!r} is declared as any text")
        return {"type": "string", **kept}

    def _free(self, name: str, place: str, properties: Mapping[str, Any]) -> str:
        safe = name
        while safe in properties:
            safe = f"{place}_{safe}"
        if safe != name:
            self._upstream.renames[safe] = name
            self._reviews.append(
                f"[input_schema] {name!r} of the {place} is renamed to {safe!r}, because the name is taken"
            )
        return safe

    def _body(self, properties: dict[str, Any], required: list[str]) -> None:
        body = self._facts.references.follow(self._operation.get("requestBody"))
        content = body.get("content")
        if not isinstance(content, Mapping) or not content:
            return
        kind, schema = choose_content(content, self._facts.references, self._losses)
        resolved = self._facts.references.follow(schema) if isinstance(schema, Mapping) else {}
        form = body_format(kind)
        gathered = None if form == "raw" else self._gatherer.gather(resolved)
        if not self._facts.may_send_body:
            if gathered is None or gathered.schemas:
                self._losses["request bodies of methods that have none"] += 1
                http = self._facts.http.upper()
                self._reviews.append(f"[handler] the document has a body, but {http} is sent without one")
            return
        needed = body.get("required") is True
        if gathered is not None and not gathered.schemas and self._facts.http == "delete":
            return
        self._upstream.body = form
        if form == "json" or (form == "raw" and "*" not in kind):
            self._upstream.headers["Content-Type"] = "application/json" if "*" in kind or "/" not in kind else kind
        self._other_bodies(kind, content)
        if gathered is None:
            self._whole_body(kind, form, schema, needed, properties, required)
            return
        encodings = self._facts.references.follow(content[kind]).get("encoding")
        self._fields(gathered, encodings, form, body.get("required", True) is not False, properties, required)

    def _other_bodies(self, kind: str, content: Mapping[str, Any]) -> None:
        """Name the media types of bodies that are not sent, which may be the only ones for some values."""
        if "/" not in kind:
            self._reviews.append("[handler.body] the document names no media type of the body, so it is sent as JSON")
        others = [str(each)[:60] for each in content if each != kind and "/" in str(each)]
        if others:
            more = f" and {len(others) - MOST_TYPES} more" if len(others) > MOST_TYPES else ""
            listed = ", ".join(others[:MOST_TYPES])
            self._reviews.append(f"[handler.body] it is sent as {kind}; the document also has {listed}{more}")

    def _fields(
        self,
        gathered: BodyFields,
        encodings: Any,
        form: str,
        needed: bool,
        properties: dict[str, Any],
        required: list[str],
    ) -> None:
        """Add the fields of a body that is an object."""
        fields, names = gathered.schemas, gathered.required
        self._reviews.extend(f"[input_schema] {sentence}" for sentence in dict.fromkeys(gathered.said))
        for name in sorted(names - fields.keys()):
            fields[name] = {}
            self._reviews.append(f"[input_schema] {name!r} is required but not described, so any value is accepted")
        declared = encodings if isinstance(encodings, Mapping) else {}
        for name, inner in fields.items():
            if is_read_only(inner, self._facts.references):
                self._losses["fields that the upstream only returns"] += 1
                continue
            safe = self._free(name, "body", properties)
            multipart = form == "multipart"
            encoding: dict[str, Any] = {}
            file = False
            if form in ("form", "multipart"):
                of = declared.get(name)
                encoding, file = member_encoding(of, inner, self._facts.references, multipart=multipart)
            properties[safe] = self._file(inner) if file else self._facts.converter.convert(inner)
            if encoding:
                self._upstream.encoding[safe] = encoding
            if isinstance(declared.get(name), Mapping) and declared[name].get("headers"):
                self._losses["header fields of parts of a body"] += 1
            if name in names and needed:
                required.append(safe)

    def _file(self, schema: Any) -> dict[str, Any]:
        """Return the input schema of a file, or of a list of files."""
        found = self._facts.references.follow(schema) if isinstance(schema, Mapping) else {}
        said = strip_html(found.get("description"))
        prose = {"description": said} if isinstance(said, str) else {}
        if found.get("type") == "array":
            return {**prose, "type": "array", "items": dict(FILE_SCHEMA)}
        return {**prose, **FILE_SCHEMA}

    def _whole_body(
        self, kind: str, form: str, schema: Any, needed: bool, properties: dict[str, Any], required: list[str]
    ) -> None:
        """Add one member for a body without fields."""
        name = self._free("body", "body", properties)
        self._upstream.renames.pop(name, None)
        if needed:
            required.append(name)
        if form in ("form", "multipart"):
            properties[name] = {"type": "object"}
            self._upstream.encoding[name] = {"style": "form"}
            self._reviews.append(
                f"[input_schema] {name!r} takes all fields of the form, because the document names none"
            )
            return
        self._upstream.whole_body = name
        if form == "json":
            properties[name] = self._facts.converter.convert(schema if schema is not None else {})
            self._reviews.append(f"[input_schema] {name!r} is the whole body, which is not an object of fields")
        elif is_text(kind) and not is_binary(schema, self._facts.references):
            properties[name] = {"type": "string"}
            self._reviews.append(f"[input_schema] {name!r} is the whole body, which the caller writes as {kind[:80]}")
        else:
            properties[name] = dict(FILE_SCHEMA)
            self._upstream.encoding[name] = {"file": True, **({"content_type": kind} if "*" in kind else {})}
            self._reviews.append(f"[input_schema] {name!r} is the whole body, {kind[:80]}, in base64")
