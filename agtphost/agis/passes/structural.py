"""Pass 1: the members of a document, each of the right type and not empty (AGIS v01 sections 8.1 to 8.3, 10)."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from typing import Any

import jsonschema_rs

from agtphost.agis.document import MAX_ENDPOINTS, VERSION, AgisDocument, endpoints
from agtphost.agis.document_reader import Place, Tree
from agtphost.agis.findings import Finding
from agtphost.agis.passes.subject import Subject
from agtphost.vocabulary import uris

MOST = 100
"""Violations of the schema that are reported for one document."""

MANY = 50_000
"""Values of a document beyond which only the first violation is reported: the validator finds all before it returns."""

_HIGH = frozenset({"high", "irreversible"})
_TELLING = re.compile(
    r"\b[0-9][0-9,.]{2,} (?:records|rows|customers|users|entries|documents|accounts)\b", re.IGNORECASE
)


_SOMETHING = r"\S"
"""Pattern of a text that is not only space."""

_KINDS = {
    "string": "text",
    "object": "a mapping of members",
    "array": "a list",
    "boolean": "true or false",
    "number": "a number",
    "integer": "a whole number",
}


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of documents that ships with this package."""
    text = resources.files("agtphost.agis").joinpath("schema.json").read_text("utf-8")
    shipped: dict[str, Any] = json.loads(text)
    return shipped


@functools.cache
def _validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema(), offline=True)


def check(tree: Tree) -> Iterator[Finding]:
    """
    Yield the faults of the structure.

    :return: errors, after which the other passes are not run, or warnings.
    """
    subject = Subject(document=AgisDocument(tree=tree))
    faults = [*_shape(subject)]
    yield from faults
    if not faults:
        yield from _meaning(subject)


def _shape(subject: Subject) -> Iterator[Finding]:
    root = subject.document.tree.root
    if not isinstance(root, dict):
        message = "the document is not a mapping of members"
        yield subject.finding(
            "1-schema", "document", (), message, 'begin with agis: "1.0", and service, agtp and so on'
        )
        return
    given = root.get("endpoints")
    if isinstance(given, (dict, list)) and len(given) > MAX_ENDPOINTS:
        message = f"it has {len(given)} endpoints; the limit is {MAX_ENDPOINTS}"
        yield subject.finding("1-schema", "endpoints", ("endpoints",), message, "publish several services")
        return
    for error in _breaches(subject.document.tree):
        place: Place = tuple(error.instance_path)
        yield subject.finding("1-schema", _element(place), place, _message(error), _hint(place, error))


def _breaches(tree: Tree) -> Iterator[Any]:
    if sum(map(len, tree.marks.values())) <= MANY:
        yield from islice(_validator().iter_errors(tree.root), MOST)
        return
    try:
        _validator().validate(tree.root)
    except jsonschema_rs.ValidationError as error:
        yield error


def _element(place: Place) -> str:
    return (
        ".".join(str(name) if isinstance(name, str) else f"[{name}]" for name in place).replace(".[", "[") or "document"
    )


def _message(error: Any) -> str:
    if error.kind.name == "pattern" and error.kind.pattern == _SOMETHING:
        return "it is empty"
    return str(error.message).partition("\n")[0][:200]


def _hint(place: Place, error: Any) -> str:
    name, kind = place[-1] if place else "", error.kind
    match kind.name:
        case "required":
            return f"add the member {kind.property}"
        case "type" if kind.types == ["string"] and isinstance(error.instance, float) and name != "agis":
            return "put it in quotes, as it is written"  # 1.10 is 1.1 as a number.
        case "type" if kind.types == ["string"] and isinstance(error.instance, (int, float)):
            # YAML reads `agis: 1.0` as a number.
            written = json.dumps(json.dumps(error.instance))
            return f"{name}: {written}" if isinstance(name, str) else written
        case "type":
            return f"write {' or '.join(_KINDS.get(each, each) for each in kind.types)}"
        case "enum":
            return f"one of {', '.join(map(str, kind.options))}"
        case "minItems" | "minProperties":
            return f"add at least one of the {name}"
        case "minLength":
            return f"write the {name}" if isinstance(name, str) else "write it, or remove it"
        case "maxLength":
            return f"at most {kind.limit} characters"
        case "pattern" if place[:1] == ("endpoints",):
            return "name endpoints METHOD /path"
        case "pattern":
            return f"write the {name}" if kind.pattern == _SOMETHING else "letters, digits, dots and hyphens"
        case "propertyNames":
            return "name endpoints METHOD /path"
    return "agtp agis schema shows what is allowed there"


def _meaning(subject: Subject) -> Iterator[Finding]:
    document = subject.document
    members = document.members
    if members["agis"] != VERSION:
        yield subject.finding("1-version", "agis", ("agis",), f"it is not {VERSION}", f'agis: "{VERSION}"')
    try:
        uris.parse(members["agtp"])
    except uris.UriError as error:
        yield subject.finding(
            "1-address", "agtp", ("agtp",), f"it is not an address: {error}", "agtp://agents.example.com"
        )
    missing = [name for name in ("description", "version") if not _has_member(members, name)]
    for name in missing:
        fix = "description: what the service does, and for whom" if name == "description" else 'version: "1.0.0"'
        yield subject.finding("1-recommended", name, (), f"the document has no {name}", fix)
    yield from _twice(subject)
    if document.vocabulary.get("negotiable") is True and "data_manifest" not in members:
        message = "the service is negotiable, but it has no data_manifest"
        fix = "declare the data classes that may be negotiated, or negotiable: false"
        yield subject.finding("1-manifest", "vocabulary.negotiable", ("vocabulary", "negotiable"), message, fix)
    yield from _manifest(subject)


def _has_member(members: Any, name: str) -> bool:
    """Return whether a member exists; the draft's own examples have their version in the vocabulary block."""
    block = members.get("vocabulary")
    return name in members or (name == "version" and isinstance(block, dict) and name in block)


def _twice(subject: Subject) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for endpoint in endpoints(subject.document.members):
        key = endpoint.verb, endpoint.path
        if key in seen:
            at = endpoint.place("method")
            yield subject.finding("1-endpoint-twice", endpoint.name, at, "it is defined twice", "remove one of them")
        seen.add(key)


def _manifest(subject: Subject) -> Iterator[Finding]:
    open_to_all = bool((subject.document.members.get("data_manifest") or {}).get("pre_auth_discovery"))
    for index, entry in enumerate(subject.document.data_classes):
        at: Place = ("data_manifest", "available_data", index)
        name = f"data class {entry['class']}"
        if entry.get("sensitivity") in _HIGH and entry.get("requires_authorization") is not True:
            message = "it is highly sensitive, but does not require authorization"
            yield subject.finding("1-sensitive", name, at, message, "requires_authorization: true")
        if open_to_all and _TELLING.search(str(entry.get("description", ""))):
            message = "its description counts records, but is public"
            yield subject.finding(
                "1-too-telling", name, (*at, "description"), message, "describe only the kind of data"
            )
