"""Conversion of an OpenAPI document's operations to a document with review notes (AGIS v01 appendix B)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from agtphost.agis.document import MAX_ENDPOINTS
from agtphost.agis.document_reader import MAX_DEPTH, MAX_OCTETS, MAX_VALUES
from agtphost.agis.drafts import (
    DraftDocument,
    DraftEndpoints,
    choose_intent,
    choose_method,
    choose_outcome,
    choose_path,
    draft,
    is_address,
    line_of,
    path_fits,
    reads,
    slug,
)
from agtphost.agis.passes.completeness import CAPABILITIES, SURE
from agtphost.agis.passes.contracts import GENERIC
from agtphost.agis.passes.path_syntax import thing
from agtphost.agis.to_openapi import CONTRACTS, OWN, SAID
from agtphost.agis.words import parts, words
from agtphost.contract.openapi.document_text import DocumentTextError, read_document
from agtphost.contract.openapi.importer import HTTP_METHODS, OpenAPIError
from agtphost.contract.openapi.names import choose_path as named_path
from agtphost.contract.openapi.operation import ImportedOperation, error_name, read_operation
from agtphost.contract.openapi.schemas import OpenAPIReferences, SchemaConverter
from agtphost.contract.openapi.upstream import Facts
from agtphost.vocabulary.catalog import Catalog

USUAL = {"get": "RETRIEVE", "head": "CHECK", "options": "DESCRIBE", "put": "REPLACE", "patch": "MODIFY"}
"""Verbs if only the HTTP method is known."""

OUTCOME = "x-outcome"
"""The draft's member for outcomes (AGIS v01 appendix B)."""

_VERSION = re.compile(r"3\.[01](?:\.[0-9]+)?(?:-[0-9A-Za-z.-]+)?", re.ASCII)
_FROM_SCHEMAS = re.compile(r"\[(input|output)_schema\] (.*)", re.DOTALL)


def read_openapi(octets: bytes) -> Any:
    """
    Parse an OpenAPI document.

    :param octets: JSON or YAML; names may be numbers, such as ``200:``.
    :raises OpenAPIError: it cannot be parsed, or is larger than documents may be.
    """
    if len(octets) > MAX_OCTETS:
        raise OpenAPIError(f"it has more than {MAX_OCTETS} octets")
    try:
        tree = read_document(octets)
    except DocumentTextError as error:
        raise OpenAPIError(str(error)) from None
    level, values = [tree], 0
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, (dict, list))]
        values += sum(map(len, level))
        if values > MAX_VALUES:
            raise OpenAPIError(f"it has more than {MAX_VALUES} values")
        if not level:
            return tree
        level = [value for item in level for value in (item.values() if isinstance(item, dict) else item)]
    raise OpenAPIError(f"it is nested more than {MAX_DEPTH} deep")


def from_openapi(document: Any, *, service: str = "", agtp: str | None = None) -> DraftDocument:
    """
    Return a document of operations.

    :param document: result of :func:`read_openapi`; references to other documents are not fetched.
    :param service: name of the service; empty: the document's title.
    :param agtp: address of the service; None: the document's own.
    :raises OpenAPIError: it is not OpenAPI 3.0 or 3.1.
    """
    if not isinstance(document, Mapping):
        raise OpenAPIError("it is not an object")
    version = document.get("openapi")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        raise OpenAPIError(
            f"it is not OpenAPI 3.0 or 3.1; its version is {str(document.get('swagger', version))[:40]!r}"
        )
    if not isinstance(document.get("paths", {}), Mapping):
        raise OpenAPIError("paths must be an object")
    return _OpenApiReader(document).draft(service, agtp)


class _OpenApiReader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._catalog = Catalog.load()
        self._references = OpenAPIReferences(document)
        self._converter = SchemaConverter(self._references)
        self._made = DraftEndpoints()
        self._tags: Counter[str] = Counter()
        self._skipped: list[str] = []

    def draft(self, service: str, agtp: str | None) -> DraftDocument:
        operations = [*self._operations()]
        if not operations:
            raise OpenAPIError("it has no operations")
        if len(operations) > MAX_ENDPOINTS:
            raise OpenAPIError(f"it has {len(operations)} operations; the limit is {MAX_ENDPOINTS}")
        for http, path, item in operations:
            for given in _several(item[http]):
                self._add_own(f"{http.upper()} {path}", given)
            if not _several(item[http]):
                self._add(http, path, item)
        if len(self._made.made) > MAX_ENDPOINTS:
            raise OpenAPIError(f"it has {len(self._made.made)} endpoints; the limit is {MAX_ENDPOINTS}")
        own, about = _object(self._document, OWN), _object(self._document, "info")
        title = service or line_of(about.get("title"), 200) or "service"
        found = draft(
            self._made.made,
            self._made.reviews,
            service=title,
            agtp=agtp or self._address(own),
            description=line_of(_own_words(about.get("description"))) or f"What {title} does",
            version=line_of(about.get("version"), 64),
            domain=slug(self._tags.most_common(1)[0][0]) if self._tags else "",
        )
        vocabulary = {name: value for name, value in _object(own, "vocabulary").items() if name != "declared_verbs"}
        found.document["vocabulary"] |= vocabulary
        if isinstance(own.get("data_manifest"), Mapping):
            found.document["data_manifest"] = dict(own["data_manifest"])
        return found

    def _address(self, own: Mapping[str, Any]) -> str | None:
        said = own.get("agtp")
        if isinstance(said, str) and is_address(said):
            return said
        servers = self._document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], Mapping) else {}
        try:
            name = urlsplit(str(first.get("url", ""))).hostname
        except ValueError:
            name = None
        return f"agtp://{name}" if name and is_address(f"agtp://{name}") else None

    def _operations(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        for path, item in self._document.get("paths", {}).items():
            members = self._references.follow(item)
            yield from ((http, path, members) for http in HTTP_METHODS if isinstance(members.get(http), Mapping))

    def _add_own(self, source: str, given: Mapping[str, Any]) -> None:
        """Add one of several endpoints that share an operation, unchanged from the exported document."""
        path = self._made.reserve_path(given["method"], given["path"])
        contracts = {name: dict(given[name]) for name in CONTRACTS.values()}
        errors = given.get("errors")
        endpoint = {"method": given["method"], "path": path, "semantic": dict(given["semantic"]), **contracts}
        endpoint |= {"errors": errors if isinstance(errors, list) else [], **_scopes(given)}
        self._made.add(endpoint, [("source", line_of(source))])

    def _add(self, http: str, source: str, item: Mapping[str, Any]) -> None:
        placed = named_path(http, source, self._catalog)
        facts = Facts(
            document=self._document,
            references=self._references,
            converter=self._converter,
            http=http,
            source_path=source,
            path=placed,
            item=item,
        )
        read, given = read_operation(facts), facts.operation
        table = read.table("QUERY", "/", "retrieval")
        own, notes = _object(given, OWN), [("source", f"{http.upper()} {line_of(source)}")]
        method, path = _exported_name(own) or self._name(http, read, placed.path, placed.action, notes)
        path = self._made.reserve_path(method, path)
        semantic = dict(_object(own, "semantic")) or self._semantic(http, method, path, read, given, notes)
        notes += [(found[1], found[2]) for each in read.reviews if (found := _FROM_SCHEMAS.fullmatch(each)) is not None]
        errors = own.get("errors")
        if not isinstance(errors, list):
            errors = [*_errors(given, self._references)]
            if errors:
                notes.append(("errors", "named after the status; replace them by names of the failure"))
        tags = given.get("tags")
        if isinstance(tags, list) and tags and line_of(tags[0], 100):
            self._tags[line_of(tags[0], 100)] += 1
        endpoint = {
            "method": method,
            "path": path,
            "semantic": semantic,
            "input": dict(read.input_schema),
            "output": dict(table["output_schema"]),
            "errors": errors,
            **_scopes(own),
        }
        self._made.add(endpoint, notes)

    def _name(
        self, http: str, read: ImportedOperation, path: str, action: str, notes: list[tuple[str, str]]
    ) -> tuple[str, str]:
        """Return method and path: the verb of the operationId or summary, and the nouns of the path."""
        if action and words().is_verb(action):
            method = action
            notes.append(("method", f"{action} was the last segment of the path"))
        else:
            usual = USUAL.get(http) or ("REMOVE" if http == "delete" else "CREATE" if read.creates else "SUBMIT")
            # Without an operationId, /getReport and /search-pets name the action.
            last = next((each for each in reversed(path.split("/")) if not each.startswith("{")), "")
            name = read.operation_id or (last if len(parts(last)) > 1 else "")
            chosen = choose_method(name, read.summary or read.description, usual=usual)
            method = chosen.method
            if chosen.note:
                notes.append(("method", chosen.note))
            elif reads(method) != (http in ("get", "head", "options")) and http != "post":
                notes.append(("method", f"{method} is not what {http.upper()} usually does"))
        segments: list[str] = []
        for segment in path.split("/"):
            if not segment:
                continue
            if segment.startswith("{") or path_fits(method, f"/{segment}"):
                segments.append(segment)
                continue
            noun, _ = choose_path(method, parts(segment), ())
            if noun != "/resource":
                segments.append(noun.strip("/"))
            elif slug(segment) and path_fits(method, f"/{slug(segment)}"):
                segments.append(slug(segment))
        found = f"/{'/'.join(segments)}"
        if found == "/" or not any(not each.startswith("{") for each in segments):
            noun, _ = choose_path(method, (), [*self._nouns(read)])
            found = noun + (found if found != "/" else "")
        elif segments[0].startswith("{"):
            noun, _ = choose_path(method, (), [thing(segments[0]), *self._nouns(read)])
            found = noun + found
        if found != path:
            notes.append(("path", f"the original path was {line_of(path)}"))
        return method, found

    def _nouns(self, read: ImportedOperation) -> Iterator[str]:
        """Yield nouns for the object of an operation on /."""
        yield from reversed(parts(read.operation_id)[1:])
        yield line_of(_object(self._document, "info").get("title"), 100)

    def _semantic(
        self,
        http: str,
        method: str,
        path: str,
        read: ImportedOperation,
        given: Mapping[str, Any],
        notes: list[tuple[str, str]],
    ) -> dict[str, Any]:
        intent, why = choose_intent(method, path, given.get("summary") or given.get("description"))
        if why:
            notes.append(("intent", why))
        outcome, why = choose_outcome(method, path, given.get(OUTCOME))
        if why:
            notes.append(("outcome", f"{why}; add {OUTCOME} to the operation"))
        looks = http in ("get", "head", "options") or (http == "post" and reads(method))
        impact = "informational" if looks else "irreversible" if http in ("post", "delete") else "reversible"
        notes.append(("impact_tier", f"{impact}: a guess from {http.upper()}"))
        capability = self._made.capability(method)
        return {
            "intent": intent,
            "actor": "agent",
            "outcome": outcome,
            "capability": capability if capability in CAPABILITIES else "transaction",
            "confidence_guidance": SURE if impact == "irreversible" else 0.6,
            "impact_tier": impact,
            "is_idempotent": http != "post" and http != "patch",
        }


def _own_words(description: Any) -> Any:
    """Return a description without the text that ``to-openapi`` adds."""
    return description.removesuffix(SAID).rstrip() if isinstance(description, str) else description


def _exported_name(own: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return method and path of an operation that was exported from AGIS; None for others."""
    method, path = own.get("method"), own.get("path")
    return (method, path) if isinstance(method, str) and isinstance(path, str) else None


def _scopes(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required scopes, if the document was exported from one that has them."""
    given = own.get("required_scopes")
    return {"required_scopes": given} if isinstance(given, list) and given else {}


def _several(operation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the endpoints that share an operation exported from AGIS; empty if it has one, or was not exported."""
    own = operation.get(OWN)
    if not isinstance(own, list) or not all(isinstance(each, Mapping) and _exported_name(each) for each in own):
        return []
    whole = all(isinstance(each.get(name), Mapping) for each in own for name in ("semantic", *CONTRACTS.values()))
    return own if whole else []


def _errors(operation: Mapping[str, Any], references: OpenAPIReferences) -> Iterable[dict[str, str]]:
    """Yield the errors of an operation: names made of the status, with the document's descriptions."""
    responses = _object(operation, "responses")
    for code in sorted(str(code) for code in responses):
        if re.fullmatch(r"4[0-9]{2}", code) is None:
            continue
        name = error_name(code)
        said = line_of(references.follow(responses.get(code)).get("description"))
        yield {"name": name if name not in GENERIC else f"http_{code}", **({"description": said} if said else {})}


def _object(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}
