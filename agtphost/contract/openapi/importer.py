"""
Import of OpenAPI 3.0 and 3.1 as endpoint declarations with external_service handlers (AGTP-API sections 12.3 and 14.1).

The declarations are generated: ``REVIEW`` comments in the text mark what a person has to confirm before an endpoint is
published. Until then the files are named ``.toml.review``, which no host loads. The import is pure: nothing is fetched,
for any reference in the document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agtphost.contract.declaration import Declaration, Rules
from agtphost.contract.endpoint_table import conflicts
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.openapi.names import (
    OTHERS,
    RESERVED_FIRST,
    USUAL,
    ChosenMethod,
    ChosenPath,
    choose_method,
    choose_path,
    says_create,
)
from agtphost.contract.openapi.operation import ImportedOperation, read_operation
from agtphost.contract.openapi.prose import strip_html
from agtphost.contract.openapi.schemas import OpenAPIReferences, SchemaConverter
from agtphost.contract.openapi.upstream import Facts
from agtphost.contract.reserved import RESERVED
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import parse_template, template_faults
from agtphost.vocabulary.tomltext import write_toml

SUFFIX = ".toml.review"

HTTP_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
"""HTTP methods that an external_service handler can send (AGTP-API section 12.3)."""

MAX_OPERATIONS = 20_000

_VERSION = re.compile(r"3\.[01](?:\.[0-9]+)?(?:-[0-9A-Za-z.-]+)?", re.ASCII)


class OpenAPIError(ValueError):
    """The document is not OpenAPI 3.0 or 3.1; the message says why."""


class PrefixError(ValueError):
    """A path of an endpoint cannot begin with the prefix; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ImportedEndpoint:
    """An imported endpoint as a text for review."""

    source: str
    """Method and path in the document, such as ``POST /orders/{id}/cancel``."""

    method: str
    path: str
    table: Mapping[str, Any]
    """The declaration."""

    naming: tuple[str, ...]
    """What a person has to review first: how method and path were chosen."""

    reviews: tuple[str, ...]
    """All that a person has to review, including the naming."""

    losses: tuple[str, ...]
    """What the document states and the declaration cannot."""

    file: str
    """File name without folder."""

    origin: str = "OpenAPI"
    """The kind of the document."""

    def text(self, title: str) -> str:
        """Return the TOML, preceded by what has to be reviewed."""
        lines = [
            f"Derived from {self.origin}: {self.source} of {title}.",
            "Intent, outcome and impact are not confirmed yet; check every REVIEW line.",
            "No host loads this file until it is renamed to .toml.",
            *(f"REVIEW {review}" for review in self.reviews),
            *(f"LOST {loss}" for loss in self.losses),
        ]
        head = "".join(f"# {_one_line(line)}\n" for line in lines)
        return f"{head}\n{write_toml(self.table)}"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import."""

    title: str
    version: str
    """The document's member ``openapi``."""

    endpoints: tuple[ImportedEndpoint, ...]
    renamed: tuple[tuple[str, str], ...]
    """Changed paths of the document, with the new ones."""

    losses: Mapping[str, int]
    """What is lost, and in how many places."""

    skipped: tuple[str, ...]
    """Operations without an endpoint, with the reason."""


def import_openapi(document: Any, catalog: Catalog, prefix: str = "") -> Imported:
    """
    Convert every operation into an endpoint.

    :param document: the document as decoded from JSON or YAML.
    :param catalog: catalog of the methods that may be used; the importer uses no others.
    :param prefix: segments before each path, such as ``/stripe``, so that two documents fit on one host; empty: none.
    :raises OpenAPIError: the document is not OpenAPI 3.0 or 3.1.
    :raises PrefixError: a path cannot begin with the prefix.
    """
    if not isinstance(document, Mapping):
        raise OpenAPIError("it is not an object")
    version = document.get("openapi")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        found = document.get("swagger", version)
        raise OpenAPIError(f"it is not OpenAPI 3.0 or 3.1; its version is {str(found)[:40]!r}")
    if not isinstance(document.get("paths", {}), Mapping):
        raise OpenAPIError("paths must be an object")
    return _OpenApiImport(document, version, catalog, _check_prefix(prefix, catalog)).run()


def _check_prefix(prefix: str, catalog: Catalog) -> str:
    """Return the prefix with a slash at its beginning and none at its end."""
    path = "/" + prefix.strip("/")
    if path == "/":
        return ""
    faults = [*template_faults(path, catalog.methods)]
    if "{" in path:
        faults.append("has a parameter")
    if path.split("/")[1].lower() == RESERVED_FIRST:
        faults.append(f"begins with /{RESERVED_FIRST}, which the host reserves")
    if faults:
        raise PrefixError(f"{prefix[:80]!r} cannot begin a path: {faults[0]}")
    return path


@dataclass(kw_only=True)
class _Draft:
    """An endpoint before method and path are final."""

    http: str
    source_path: str
    operation: ImportedOperation
    chosen: ChosenMethod
    path: ChosenPath
    method: str
    template: str
    notes: list[str]


class _OpenApiImport:
    def __init__(self, document: Mapping[str, Any], version: str, catalog: Catalog, prefix: str) -> None:
        self._document = document
        self._version = version
        self._catalog = catalog
        self._prefix = prefix
        self._references = OpenAPIReferences(document)
        self._converter = SchemaConverter(self._references)
        self._rules = Rules(catalog=catalog, reserved=frozenset(RESERVED))
        self._losses: Counter[str] = Counter()
        self._skipped: list[str] = []
        self._files: set[str] = set()

    def run(self) -> Imported:
        drafts = list(self._drafts())
        self._settle(drafts)
        for name in ("webhooks", "tags", "externalDocs"):
            if name == "webhooks" and self._document.get(name):
                self._losses["webhooks"] += len(self._document[name])
        endpoints = tuple(endpoint for draft in drafts if (endpoint := self._endpoint(draft)) is not None)
        renamed = {draft.source_path: draft.template for draft in drafts if draft.source_path != draft.template}
        return Imported(
            title=self._title(),
            version=self._version,
            endpoints=endpoints,
            renamed=tuple(renamed.items()),
            losses=dict(self._losses.most_common()),
            skipped=tuple(self._skipped),
        )

    def _title(self) -> str:
        about = self._document.get("info")
        members = about if isinstance(about, Mapping) else {}
        title, version = members.get("title"), members.get("version")
        named = [str(part) for part in (title, version) if isinstance(part, (str, int, float))]
        return _one_line(" ".join(named))[:120] or "a document without a title"

    def _drafts(self) -> Iterator[_Draft]:
        count = 0
        for path, item in self._document.get("paths", {}).items():
            if not path.startswith("/"):
                continue
            members = self._references.follow(item)
            if not members and isinstance(item, Mapping) and "$ref" in item:
                self._skipped.append(f"{path}: it is in another document, and nothing is fetched")
            if "trace" in members:
                self._skipped.append(f"TRACE {path}: no external_service handler sends TRACE")
            for http in HTTP_METHODS:
                if isinstance(members.get(http), Mapping):
                    count += 1
                    if count > MAX_OPERATIONS:
                        raise OpenAPIError(f"it has more than {MAX_OPERATIONS} operations")
                    yield self._draft(http, path, members)

    def _draft(self, http: str, source_path: str, item: Mapping[str, Any]) -> _Draft:
        said = (strip_html(item[http].get(name)) for name in ("summary", "description"))
        creating = any(says_create(text) for text in said if isinstance(text, str))
        path = choose_path(http, source_path, self._catalog, creating=creating)
        if self._prefix:
            path = replace(path, path=(self._prefix + path.path).rstrip("/"))
        facts = Facts(
            document=self._document,
            references=self._references,
            converter=self._converter,
            http=http,
            source_path=source_path,
            path=path,
            item=item,
            methods=self._catalog.methods,
        )
        operation = read_operation(facts)
        chosen = choose_method(
            http,
            operation.operation_id,
            operation.summary or operation.description,
            action=path.action,
            creates=operation.creates,
            catalog=self._catalog,
            description=operation.description,
        )
        if any(parameter_faults(chosen.method, operation.input_schema)):
            usual = next(name for name in (USUAL[http], *OTHERS.get(http, ()), "QUERY") if self._catalog.knows(name))
            why = f"{chosen.method} has parameters that this operation lacks"
            chosen = ChosenMethod(method=usual, reason=why, sure=False, suggestions=chosen.suggestions)
        return _Draft(
            http=http,
            source_path=source_path,
            operation=operation,
            chosen=chosen,
            path=path,
            method=chosen.method,
            template=path.path,
            notes=[],
        )

    def _settle(self, drafts: Sequence[_Draft]) -> None:
        """Give every operation a method and path that no other operation has and the host does not reserve."""
        own = [(method, parse_template(path)) for method, path in RESERVED]
        tried = [0] * len(drafts)
        variants: Counter[str] = Counter()
        for _ in range(24):
            clashes = conflicts([*own, *((draft.method, parse_template(draft.template)) for draft in drafts)])
            if not clashes:
                return
            for clash in clashes:
                at = clash.second - len(own)
                draft = drafts[at]
                first = drafts[clash.first - len(own)] if clash.first >= len(own) else None
                with_what = "a method and path of the host itself" if first is None else _source(first)
                said = f"{draft.method} {draft.template} would clash with {with_what}"
                others = [
                    name
                    for name in OTHERS.get(draft.http, ())
                    if name != draft.chosen.method and self._catalog.knows(name)
                ]
                if tried[at] < len(others):
                    draft.method = others[tried[at]]
                else:
                    # Hundreds may differ only in a fragment, so each gets a number immediately.
                    variants[draft.path.path] += 1
                    draft.method = draft.chosen.method
                    draft.template = f"{draft.path.path.rstrip('/')}/variant-{variants[draft.path.path] + 1}"
                tried[at] += 1
                draft.notes = [f"[method] {said}; so it is {draft.method} {draft.template}"]

    def _endpoint(self, draft: _Draft) -> ImportedEndpoint | None:
        """Return the endpoint; None if the host would refuse it, which is noted with the reason."""
        operation = draft.operation
        entry = self._catalog.entry(draft.method)
        capability = entry.categories[0] if entry is not None else "transaction"
        table = operation.table(draft.method, draft.template, capability)
        problems = list(self._problems(table))
        if problems:
            self._skipped.append(f"{_source(draft)}: the host would refuse it: {'; '.join(problems)[:300]}")
            return None
        naming = tuple(self._naming(draft))
        self._losses.update(operation.losses)
        return ImportedEndpoint(
            source=_source(draft),
            method=draft.method,
            path=draft.template,
            table=table,
            naming=naming,
            reviews=(*naming, *operation.reviews),
            losses=operation.losses,
            file=self._file(draft),
        )

    @staticmethod
    def _naming(draft: _Draft) -> Iterator[str]:
        chosen = draft.chosen
        if not draft.notes and not chosen.sure:
            also = f"; also possible: {', '.join(chosen.suggestions)}" if chosen.suggestions else ""
            yield f"[method] {chosen.method}: {chosen.reason}{also}"
        yield from draft.notes
        for change in draft.path.changes:
            yield f"[path] {change}"

    def _problems(self, table: Mapping[str, Any]) -> Iterator[str]:
        """Yield what the host would refuse in the declaration."""
        said: list[str] = []
        Declaration(table, self._rules, lambda _, message, *__: said.append(message)).endpoint("", 0)
        yield from said

    def _file(self, draft: _Draft) -> str:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", draft.template).strip("-").lower()[:100] or "root"
        wanted = name = f"{draft.method.lower()}-{slug}"
        number = 2
        while name in self._files:
            name, number = f"{wanted}-{number}", number + 1
        self._files.add(name)
        return f"{name}{SUFFIX}"


def _source(draft: _Draft) -> str:
    return f"{draft.http.upper()} {draft.source_path}"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
