"""
Whether a document is a server manifest (AGTP-API section 8): every fault, with a JSON pointer.

Meant for any server's manifest, so it asks for what the drafts demand, not
for what this host's own limits are. Members that the drafts do not name are
let through: they are how manifests grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agtphost.contract.built_in_contracts import BINDINGS, effect_faults
from agtphost.contract.declaration import RESERVED_DISCOVER
from agtphost.contract.foreign_schemas import remote_references, schema_error
from agtphost.contract.manifest import SIGNATURE
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.schema_rules import escape
from agtphost.contract.schemas import DIALECT
from agtphost.contract.semantic import semantic_faults
from agtphost.vocabulary.catalog import CATEGORIES, FLOOR, LEGACY, Catalog, is_method_name
from agtphost.vocabulary.media_types import JSON, MANIFEST_JSON, essence
from agtphost.vocabulary.paths import template_faults

VERSIONS = ("1.0",)
"""``agtp_version`` and ``agtp_api_version`` of the drafts this follows (AGTP-API section 8.2)."""

DISCLOSURES = ("public", "authenticated", "private")
TIERS = ("A", "B", "C")

SWITCHES = (
    *("wildcards_accepted", "anonymous_discovery"),
    *("scope_required_for_invocation", "synthesis_enabled"),
)
UPSTREAM_ERRORS = (
    *("upstream_timeout", "upstream_connection_error", "upstream_malformed_response"),
    *("upstream_authentication_failed", "upstream_error"),
)
"""What every external_service endpoint declares (AGTP-API section 12.3)."""

DEMANDED: Mapping[str, tuple[str, ...]] = {
    "composition": ("composition_failed",),
    "external_service": UPSTREAM_ERRORS,
}
"""What endpoints of a binding kind declare among their errors."""

_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}", re.ASCII)

Pointer = tuple[str | int, ...]


RULES: Mapping[str, str] = {
    "3.2": "method-name",
    "3.6": "legacy-verb",
    "4.3": "catalog-version",
    "4.8": "catalog-versions",
    "5.2": "path-grammar",
    "5.3": "path-parameter",
    "5.9": "reserved-path",
    "6.1": "endpoint-tier",
    "6.2": "endpoint-unique",
    "6.3": "endpoint-identity",
    "6.4": "endpoint-contract",
    "6.5": "endpoint-deprecation",
    "7.1": "semantic-block",
    "8.2": "manifest-structure",
    "8.3": "server-block",
    "8.4": "method-inventory",
    "8.5": "agent-disclosure",
    "8.6": "protocol-surface",
    "8.7": "policies-block",
    "8.8": "manifest-signature",
    "8.9": "endpoint-projection",
    "8.10": "manifest-retrieval",
    "8.11": "manifest-caching",
    "9.2": "method-policy",
    "12": "handler-binding",
    "13.3": "input-strictness",
}
"""What each section's rules are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about a manifest."""

    pointer: str
    """JSON pointer (RFC 6901); empty for the whole document."""

    message: str
    section: str
    """Of AGTP-API, such as ``8.3``."""

    fault: bool = True
    """False: a remark; the drafts allow it."""

    @property
    def rule(self) -> str:
        """The stable name of what is violated."""
        return RULES[self.section]

    def document(self) -> dict[str, str]:
        """The same as JSON members."""
        return {"rule": self.rule, "pointer": self.pointer, "message": self.message, "section": self.section}


def examine_answer(headers: Mapping[str, str]) -> list[Finding]:
    """
    What is to be said about the header fields a manifest came with (AGTP-API sections 8.10 and 8.11).

    :param headers: by lower-case name.
    """
    found: list[Finding] = []
    kind = headers.get("content-type", "")
    if essence(kind) != MANIFEST_JSON:
        message = f"came as {kind[:64] or 'nothing'}, not {MANIFEST_JSON}"
        # Section 17.2 lets servers send plain JSON until the type is registered.
        found.append(Finding(pointer="", message=message, section="8.10", fault=essence(kind) != JSON))
    found.extend(
        Finding(pointer="", message=f"came without {name}", section="8.11", fault=False)
        for name in ("ETag", "Cache-Control")
        if name.lower() not in headers
    )
    if "agtp-api-version" not in headers:
        message = "came without AGTP-API-Version, so readers cannot tell when it changes (core v08 section 7.6)"
        found.append(Finding(pointer="", message=message, section="8.11", fault=False))
    return found


def examine(manifest: Any, catalog: Catalog | None = None) -> list[Finding]:
    """
    Everything to be said about a manifest's structure, in the document's order.

    :param manifest: JSON as Python values; anything at all.
    :param catalog: to look methods up in, if the manifest names its version.
    """
    return _Examination(manifest, catalog).findings


class _Examination:
    def __init__(self, manifest: Any, catalog: Catalog | None) -> None:
        self.findings: list[Finding] = []
        if not isinstance(manifest, Mapping):
            self._fault((), "is not a JSON object", "8.2")
            return
        self._manifest = manifest
        version = manifest.get("catalog_version")
        self._catalog = catalog if catalog is not None and catalog.version == version else None
        customs = manifest.get("custom_methods", [])
        self._outcomes: dict[str, str] = {}
        self._customs = {name for name in customs if isinstance(name, str)} if isinstance(customs, list) else set()
        self._versions()
        self._server()
        self._methods()
        self._endpoints()
        self._agents()
        self._surface()
        self._policies()
        self._signature()

    def _fault(self, at: Pointer, message: str, section: str) -> None:
        self._say(at, message, section, fault=True)

    def _remark(self, at: Pointer, message: str, section: str) -> None:
        self._say(at, message, section, fault=False)

    def _say(self, at: Pointer, message: str, section: str, *, fault: bool) -> None:
        pointer = "".join(f"/{escape(token)}" for token in at)[:512]
        self.findings.append(Finding(pointer=pointer, message=message, section=section, fault=fault))

    # Members of any kind

    def _expect(
        self,
        table: Mapping[str, Any],
        name: str,
        at: Pointer,
        right: Callable[[Any], bool],
        shape: str,
        section: str,
        *,
        required: bool = True,
    ) -> bool:
        """Whether a member is there and right; says so where it should be and is not."""
        here = (*at, name)
        if name not in table:
            if required:
                self._fault(here, "is missing", section)
            return False
        if not right(table[name]):
            self._fault(here, f"is not {shape}", section)
            return False
        return True

    def _names(self, table: Mapping[str, Any], name: str, at: Pointer, section: str, *, required: bool) -> list[str]:
        """A list of method names."""
        if not self._expect(table, name, at, _is_list, "a list", section, required=required):
            return []
        for index, item in enumerate(table[name]):
            if not isinstance(item, str) or not is_method_name(item):
                self._fault((*at, name, index), "is not a method name (3 to 32 letters A-Z)", "3.2")
        return [item for item in table[name] if isinstance(item, str)]

    # The parts

    def _versions(self) -> None:
        manifest = self._manifest
        for name in ("agtp_version", "agtp_api_version"):
            if self._expect(manifest, name, (), _is_text, "text", "8.2") and manifest[name] not in VERSIONS:
                self._fault((name,), f"is not {' or '.join(VERSIONS)}", "8.2")
        self._expect(manifest, "document_version", (), _is_text, "text", "8.2")
        current = self._expect(manifest, "catalog_version", (), _is_version, "a version such as 1.0.0", "4.3")
        here = "catalog_versions_supported"
        if not self._expect(manifest, here, (), _is_list, "a list", "4.3"):
            return
        versions = manifest[here]
        for index, version in enumerate(versions):
            if not _is_version(version):
                self._fault((here, index), "is not a version such as 1.0.0", "4.3")
        if current and manifest["catalog_version"] not in versions:
            self._fault((here,), f"does not hold catalog_version {manifest['catalog_version']}", "4.3")
        if len(versions) > 1:
            self._remark((here,), "has more than one version, which this revision of the drafts reserves", "4.8")

    def _server(self) -> None:
        if not self._expect(self._manifest, "server", (), _is_object, "an object", "8.3"):
            return
        server, at = self._manifest["server"], ("server",)
        for name in ("server_id", "operator", "contact"):
            self._expect(server, name, at, _is_text, "text", "8.3")
        nullable = "text or null"
        self._expect(server, "domain", at, lambda value: value is None or _is_text(value), nullable, "8.3")
        self._expect(server, "supported_features", at, _is_texts, "a list of texts", "8.3")
        times = [
            self._expect(server, name, at, lambda value: _moment(value) is not None, "an ISO 8601 time", "8.3")
            for name in ("issued", "updated")
        ]
        if all(times):
            issued, updated = _moment(server["issued"]), _moment(server["updated"])
            assert issued is not None and updated is not None, "both were read above"
            if updated < issued:
                self._fault((*at, "updated"), "is before issued", "8.3")

    def _methods(self) -> None:
        embedded = self._names(self._manifest, "embedded_methods", (), "8.4", required=True)
        if embedded or isinstance(self._manifest.get("embedded_methods"), list):
            for name in sorted(set(FLOOR) - set(embedded)):
                self._fault(("embedded_methods",), f"lacks the floor method {name}", "8.4")
            for name in sorted(set(embedded) - set(FLOOR)):
                self._fault(("embedded_methods",), f"holds {name[:40]}, which is no floor method", "8.4")
        customs = self._names(self._manifest, "custom_methods", (), "8.4", required=False)
        for index, name in enumerate(customs):
            if name in LEGACY:
                self._fault(("custom_methods", index), f"is the HTTP verb {name}", "3.6")

    def _endpoints(self) -> None:
        if not self._expect(self._manifest, "endpoints", (), _is_list, "a list", "8.9"):
            return
        first: dict[tuple[str, str], int] = {}
        words = self._catalog.methods if self._catalog is not None else ()
        for index, endpoint in enumerate(self._manifest["endpoints"]):
            at: Pointer = ("endpoints", index)
            if not isinstance(endpoint, Mapping):
                self._fault(at, "is not an object", "6.2")
                continue
            self._endpoint(endpoint, at, words)
            key = str(endpoint.get("method")), str(endpoint.get("path"))
            if first.setdefault(key, index) != index:
                self._fault(at, f"is {' '.join(key)[:128]} again: /endpoints/{first[key]} is the same", "6.2")

    def _endpoint(self, endpoint: Mapping[str, Any], at: Pointer, words: Collection[str]) -> None:
        own = endpoint.get("tier") == "A"
        self._expect(endpoint, "tier", at, lambda tier: tier in TIERS, "A, B or C", "6.1", required=False)
        if self._expect(endpoint, "method", at, _is_text, "text", "6.3"):
            self._endpoint_method(endpoint["method"], (*at, "method"))
        if self._expect(endpoint, "path", at, _is_text, "text", "6.3"):
            self._endpoint_path(endpoint, at, words, own=own)
        self._expect(endpoint, "description", at, _is_text, "text", "6.3")
        if self._expect(endpoint, "semantic", at, _is_object, "an object", "7.1"):
            for member, sentence in semantic_faults(endpoint["semantic"], CATEGORIES):
                self._fault((*at, "semantic", member), sentence.partition(" ")[2], "7.1")
            for member, sentence in effect_faults(endpoint, self._outcomes, self._catalog) if own else ():
                self._fault((*at, "semantic", member), sentence, "7.1")
        for _, sentence in parameter_faults(str(endpoint.get("method")), endpoint.get("input_schema")):
            self._fault((*at, "input_schema"), sentence, "6.4")
        for name in ("input_schema", "output_schema"):
            if self._expect(endpoint, name, at, _is_object, "an object", "6.4"):
                self._schema(endpoint[name], (*at, name), closed=name == "input_schema")
        listed = self._expect(endpoint, "errors", at, _is_texts, "a list of texts", "6.4")
        errors = endpoint["errors"] if listed else []
        if self._expect(endpoint, "handler", at, _is_object, "an object", "6.4"):
            self._handler(endpoint["handler"], (*at, "handler"), errors if listed else None)
        self._expect(endpoint, "required_scopes", at, _is_texts, "a list of texts", "6.4", required=False)
        self._expect(endpoint, "namespace", at, _is_text, "text", "6.4", required=False)
        if self._expect(endpoint, "deprecated", at, _is_object, "an object", "6.5", required=False):
            self._deprecated(endpoint["deprecated"], (*at, "deprecated"))

    def _endpoint_method(self, method: str, at: Pointer) -> None:
        if not is_method_name(method):
            self._fault(at, "is not a method name (3 to 32 letters A-Z)", "3.2")
        elif method in LEGACY:
            self._fault(at, f"is the HTTP verb {method}, which no endpoint may be defined with", "3.6")
        elif self._catalog is not None and not self._catalog.knows(method) and method not in self._customs:
            known = f"neither in catalog {self._catalog.version} nor in custom_methods"
            self._fault(at, f"is {known}: {method}", "6.4")

    def _endpoint_path(self, endpoint: Mapping[str, Any], at: Pointer, words: Collection[str], *, own: bool) -> None:
        path = endpoint["path"]
        faults = list(template_faults(path, words))
        for fault in faults:
            self._fault((*at, "path"), f"breaks the path grammar: {fault}", "5.2")
        first = path[1:].partition("/")[0].lower()
        if not own and endpoint.get("method") == "DISCOVER" and (path == "/" or first in RESERVED_DISCOVER):
            self._fault((*at, "path"), f"DISCOVER {path[:64]} is reserved for the server's own documents", "5.9")
        schema = endpoint.get("input_schema")
        properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
        for segment in [] if faults else path.split("/"):
            name = segment[1:-1]
            if segment.startswith("{") and isinstance(properties, Mapping) and name not in properties:
                here = (*at, "input_schema", "properties", name)
                self._fault(here, "is missing: the path has a parameter of this name", "5.3")

    def _schema(self, schema: Mapping[str, Any], at: Pointer, *, closed: bool) -> None:
        dialect = schema.get("$schema", DIALECT)
        if dialect != DIALECT:
            self._fault((*at, "$schema"), f"is not {DIALECT}", "6.4")
            return
        for reference in remote_references(schema):
            self._fault(at, f"refers to {reference[:128]}, outside the schema", "6.4")
        error = schema_error(schema)
        if error is not None:
            where, reason = error
            self._fault((*at, *where), f"is not JSON Schema 2020-12: {reason}", "6.4")
        if closed:
            if schema.get("type") != "object":
                self._fault((*at, "type"), 'is not "object"', "6.4")
            if schema.get("additionalProperties") is not False:
                self._fault((*at, "additionalProperties"), "is not false", "13.3")

    def _handler(self, handler: Mapping[str, Any], at: Pointer, errors: Collection[str] | None) -> None:
        for name in sorted(handler.keys() - {"type"}):
            self._fault((*at, name), "is shown, but of a handler nothing but its type may be", "8.9")
        if not self._expect(handler, "type", at, _is_text, "text", "6.4"):
            return
        kind = handler["type"]
        if kind not in BINDINGS:
            self._fault((*at, "type"), f"is not {', '.join(BINDINGS)}", "12")
        declared = DEMANDED.get(kind, ()) if errors is None else errors
        for name in DEMANDED.get(kind, ()):
            if name not in declared:
                self._fault((*at[:-1], "errors"), f"lacks {name}, which {kind} endpoints declare", "12")

    def _deprecated(self, block: Mapping[str, Any], at: Pointer) -> None:
        self._expect(block, "deprecated_in", at, _is_text, "text", "6.5")
        self._expect(block, "removed_in", at, _is_text, "text", "6.5", required=False)
        if self._expect(block, "successor", at, _is_object, "an object", "6.5", required=False):
            successor = block["successor"]
            for name in ("method", "path"):
                self._expect(successor, name, (*at, "successor"), _is_text, "text", "6.5", required=False)

    def _agents(self) -> None:
        manifest = self._manifest
        known = self._expect(
            manifest, "agent_disclosure", (), lambda level: level in DISCLOSURES, " or ".join(DISCLOSURES), "8.5"
        )
        listed = self._expect(manifest, "hosted_agents", (), _is_list, "a list", "8.5")
        if known and listed and manifest["agent_disclosure"] == "private" and manifest["hosted_agents"]:
            self._fault(("hosted_agents",), "is not empty, though agent_disclosure is private", "8.5")
        notice = "agent_disclosure_notice"
        right: Callable[[Any], bool] = lambda value: value is None or _is_text(value)  # noqa: E731
        self._expect(manifest, notice, (), right, "text or null", "8.5", required=False)

    def _surface(self) -> None:
        for name in ("apis", "hosted_protocols"):
            if self._expect(self._manifest, name, (), _is_list, "a list", "8.6", required=False):
                for index, entry in enumerate(self._manifest[name]):
                    if not isinstance(entry, Mapping):
                        self._fault((name, index), "is not an object", "8.6")
        self._data_manifest()
        protocols = self._manifest.get("hosted_protocols")
        for index, entry in enumerate(protocols if isinstance(protocols, list) else ()):
            if isinstance(entry, Mapping):
                for member in ("protocol", "method", "path"):
                    self._expect(entry, member, ("hosted_protocols", index), _is_text, "text", "8.6")

    def _data_manifest(self) -> None:
        """The block of AGIS section 8.3, where a server has one."""
        if not self._expect(self._manifest, "data_manifest", (), _is_object, "an object", "8.2", required=False):
            return
        at: Pointer = ("data_manifest",)
        block = self._manifest["data_manifest"]
        if self._expect(block, "available_data", at, _is_list, "a list", "8.2"):
            for index, entry in enumerate(block["available_data"]):
                here = (*at, "available_data", index)
                if not isinstance(entry, Mapping):
                    self._fault(here, "is not an object", "8.2")
                else:
                    self._expect(entry, "class", here, _is_text, "text", "8.2")

    def _policies(self) -> None:
        if not self._expect(self._manifest, "policies", (), _is_object, "an object", "8.7"):
            return
        policies, at = self._manifest["policies"], ("policies",)
        for name in SWITCHES:
            boolean: Callable[[Any], bool] = lambda value: isinstance(value, bool)  # noqa: E731
            self._expect(policies, name, at, boolean, "true or false", "8.7")
        self._expect(policies, "max_synthesis_depth", at, _is_count, "a positive integer", "8.7")
        if self._expect(policies, "methods", at, _is_object, "an object", "9.2", required=False):
            self._method_policy(policies["methods"], ("policies", "methods"))

    def _method_policy(self, policy: Mapping[str, Any], at: Pointer) -> None:
        if policy.get("allow", "*") != "*":
            self._names(policy, "allow", at, "9.2", required=False)
        self._names(policy, "disallow", at, "9.2", required=False)
        legacy = policy.get("legacy", "NONE")
        if legacy not in ("*", "NONE") and not (_is_list(legacy) and all(verb in LEGACY for verb in legacy)):
            self._fault((*at, "legacy"), f'is not "*", "NONE" or a list of {", ".join(LEGACY)}', "9.2")
        if self._expect(policy, "aliases", at, _is_object, "an object", "9.2", required=False):
            aliases = policy["aliases"]
            for name, target in aliases.items():
                if not isinstance(target, str):
                    self._fault((*at, "aliases", name), "is not text", "9.2")
                elif target in aliases:
                    self._fault((*at, "aliases", name), f"leads to {target[:40]}, itself an alias", "9.2")
        if self._expect(policy, "redirects", at, _is_list, "a list", "9.2", required=False):
            for index, entry in enumerate(policy["redirects"]):
                here = (*at, "redirects", index)
                if not isinstance(entry, Mapping):
                    self._fault(here, "is not an object", "9.2")
                    continue
                for member in ("from_method", "to_method"):
                    self._expect(entry, member, here, _is_text, "text", "9.2")
                for member in ("from_path", "to_path"):
                    self._expect(entry, member, here, _is_text, "text", "9.2", required=False)

    def _signature(self) -> None:
        signature = self._manifest.get(SIGNATURE)
        if signature is None:
            self._remark((SIGNATURE,), "is missing: the manifest is not signed", "8.8")
        elif not isinstance(signature, str) or signature.count(".") != 2:
            self._fault((SIGNATURE,), "is not a JWS in compact form", "8.8")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_version(value: Any) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def _moment(value: Any) -> datetime | None:
    """An ISO 8601 time that names its zone."""
    if not isinstance(value, str) or "T" not in value:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
