"""
Validation of server manifests (AGTP-API section 8): every fault with a JSON pointer.

It is for every server's manifest, so it checks what the drafts require, not this host's own limits. Members that the
drafts do not name are accepted, because manifests are extended by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agtphost.contract.manifest_rules import DEMANDED, HANDLERS, RESERVED, RULES, SWITCHES
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.schema_keywords import DIALECT, escape
from agtphost.contract.schema_violations import is_part_sound, remote_references, schema_error
from agtphost.contract.semantic import effect_faults, semantic_faults
from agtphost.vocabulary.catalog import CATEGORIES, FLOOR, LEGACY, Catalog, is_method_name
from agtphost.vocabulary.media_types import JSON, MANIFEST_JSON, essence
from agtphost.vocabulary.paths import template_faults

VERSIONS = ("1.0",)
"""``agtp_version`` and ``agtp_api_version`` of the drafts this follows (AGTP-API section 8.2)."""

DISCLOSURES = ("public", "authenticated", "private")
TIERS = ("A", "B", "C")

SIGNATURE = "manifest_signature"

_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}", re.ASCII)

Pointer = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFinding:
    """A fault or remark about a manifest."""

    pointer: str
    """JSON pointer (RFC 6901); empty for the whole document."""

    message: str
    rule: str
    """Its rule: an id of :data:`~.manifest_rules.RULES`."""

    @property
    def section(self) -> str:
        """Return the section of AGTP-API, such as ``8.3``."""
        return RULES[self.rule].section

    @property
    def fault(self) -> bool:
        """Return whether it is a fault; otherwise it is a remark that the drafts allow."""
        return not RULES[self.rule].advice

    def document(self) -> dict[str, str]:
        """Return the finding as JSON members."""
        return {"rule": self.rule, "pointer": self.pointer, "message": self.message, "section": self.section}


def examine_answer(headers: Mapping[str, str]) -> list[ManifestFinding]:
    """
    Check the header fields that a manifest was sent with (AGTP-API sections 8.10 and 8.11).

    :param headers: fields by lower-case name.
    """
    found: list[ManifestFinding] = []
    kind = headers.get("content-type", "")
    if essence(kind) != MANIFEST_JSON:
        message = f"was sent as {kind[:64] or 'no media type'}, not {MANIFEST_JSON}"
        # Section 17.2 lets servers send plain JSON until the type is registered.
        rule = "own-type" if essence(kind) == JSON else "media-type"
        found.append(ManifestFinding(pointer="", message=message, rule=f"manifest-retrieval.{rule}"))
    found.extend(
        ManifestFinding(pointer="", message=f"was sent without {name}", rule=f"manifest-caching.{name.lower()}")
        for name in ("ETag", "Cache-Control")
        if name.lower() not in headers
    )
    if "agtp-api-version" not in headers:
        message = "was sent without AGTP-API-Version, so readers cannot tell when it changes (core v08 section 7.6)"
        found.append(ManifestFinding(pointer="", message=message, rule="manifest-caching.api-version"))
    return found


def examine(manifest: Any, catalog: Catalog | None = None) -> list[ManifestFinding]:
    """
    Check a manifest's structure; findings are in the document's order.

    :param manifest: JSON as Python values; it may be anything.
    :param catalog: the catalog to look methods up in, if the manifest names its version.
    """
    return _Examination(manifest, catalog).findings


class _Examination:
    def __init__(self, manifest: Any, catalog: Catalog | None) -> None:
        self.findings: list[ManifestFinding] = []
        if not isinstance(manifest, Mapping):
            self._add((), "is not a JSON object", "manifest-structure.object")
            return
        self._manifest = manifest
        version = manifest.get("catalog_version")
        self._catalog = catalog if catalog is not None and catalog.version == version else None
        customs = manifest.get("custom_methods", [])
        self._outcomes: dict[str, str] = {}
        self._definitions: dict[int, tuple[Any, bool]] = {}
        self._customs = {name for name in customs if isinstance(name, str)} if isinstance(customs, list) else set()
        self._versions()
        self._server()
        self._methods()
        self._endpoints()
        self._agents()
        self._surface()
        self._policies()
        self._signature()

    def _add(self, at: Pointer, message: str, rule: str) -> None:
        pointer = "".join(f"/{escape(token)}" for token in at)[:512]
        self.findings.append(ManifestFinding(pointer=pointer, message=message, rule=rule))

    # Members of any kind

    def _expect(
        self,
        table: Mapping[str, Any],
        name: str,
        at: Pointer,
        right: Callable[[Any], bool],
        shape: str,
        rule: str,
        *,
        required: bool = True,
    ) -> bool:
        """Return whether a member exists and is right; report it if it is missing or wrong."""
        here = (*at, name)
        if name not in table:
            if required:
                self._add(here, "is missing", rule)
            return False
        if not right(table[name]):
            self._add(here, f"is not {shape}", rule)
            return False
        return True

    def _names(self, table: Mapping[str, Any], name: str, at: Pointer, rule: str, *, required: bool) -> list[str]:
        """Return a list of method names."""
        if not self._expect(table, name, at, _is_list, "a list", rule, required=required):
            return []
        for index, item in enumerate(table[name]):
            if not isinstance(item, str) or not is_method_name(item):
                self._add((*at, name, index), "is not a method name (3 to 32 letters A-Z)", "method-name.listed")
        return [item for item in table[name] if isinstance(item, str)]

    # The parts

    def _versions(self) -> None:
        manifest = self._manifest
        for name in ("agtp_version", "agtp_api_version"):
            rule = f"manifest-structure.{name.replace('_', '-')}"
            if self._expect(manifest, name, (), _is_text, "text", rule) and manifest[name] not in VERSIONS:
                self._add((name,), f"is not {' or '.join(VERSIONS)}", rule)
        self._expect(manifest, "document_version", (), _is_text, "text", "manifest-structure.document-version")
        rule = "catalog-version.current"
        current = self._expect(manifest, "catalog_version", (), _is_version, "a version such as 1.0.0", rule)
        here = "catalog_versions_supported"
        if not self._expect(manifest, here, (), _is_list, "a list", "catalog-version.supported"):
            return
        versions = manifest[here]
        for index, version in enumerate(versions):
            if not _is_version(version):
                self._add((here, index), "is not a version such as 1.0.0", "catalog-version.supported")
        if current and manifest["catalog_version"] not in versions:
            self._add(
                (here,), f"does not hold catalog_version {manifest['catalog_version']}", "catalog-version.included"
            )
        if len(versions) > 1:
            self._add(
                (here,),
                "has more than one version, which this revision of the drafts reserves",
                "catalog-versions.single",
            )

    def _server(self) -> None:
        if not self._expect(self._manifest, "server", (), _is_object, "an object", "server-block.object"):
            return
        server, at = self._manifest["server"], ("server",)
        for name in ("server_id", "operator", "contact"):
            self._expect(server, name, at, _is_text, "text", f"server-block.{name.replace('_', '-')}")
        self._expect(server, "domain", at, _is_text_or_null, "text or null", "server-block.domain")
        self._expect(server, "supported_features", at, _is_texts, "a list of texts", "server-block.supported-features")
        times = [
            self._expect(server, name, at, _is_moment, "an ISO 8601 time", f"server-block.{name}")
            for name in ("issued", "updated")
        ]
        if all(times):
            issued, updated = _moment(server["issued"]), _moment(server["updated"])
            assert issued is not None and updated is not None, "both were read above"
            if updated < issued:
                self._add((*at, "updated"), "is before issued", "server-block.order")

    def _methods(self) -> None:
        embedded = self._names(self._manifest, "embedded_methods", (), "method-inventory.embedded", required=True)
        if embedded or isinstance(self._manifest.get("embedded_methods"), list):
            for name in sorted(set(FLOOR) - set(embedded)):
                self._add(("embedded_methods",), f"lacks the floor method {name}", "method-inventory.floor")
            for name in sorted(set(embedded) - set(FLOOR)):
                self._add(
                    ("embedded_methods",),
                    f"holds {name[:40]}, which is not a floor method",
                    "method-inventory.floor-only",
                )
        customs = self._names(self._manifest, "custom_methods", (), "method-inventory.custom", required=False)
        for index, name in enumerate(customs):
            if name in LEGACY:
                self._add(("custom_methods", index), f"is the HTTP verb {name}", "legacy-verb.custom")

    def _endpoints(self) -> None:
        if not self._expect(self._manifest, "endpoints", (), _is_list, "a list", "endpoint-projection.list"):
            return
        first: dict[tuple[str, str], int] = {}
        words = self._catalog.methods if self._catalog is not None else ()
        for index, endpoint in enumerate(self._manifest["endpoints"]):
            at: Pointer = ("endpoints", index)
            if not isinstance(endpoint, Mapping):
                self._add(at, "is not an object", "endpoint-unique.object")
                continue
            self._endpoint(endpoint, at, words)
            key = str(endpoint.get("method")), str(endpoint.get("path"))
            if first.setdefault(key, index) != index:
                self._add(
                    at, f"is {' '.join(key)[:128]} again: /endpoints/{first[key]} is the same", "endpoint-unique.pair"
                )

    def _endpoint(self, endpoint: Mapping[str, Any], at: Pointer, words: Collection[str]) -> None:
        own = endpoint.get("tier") == "A"
        self._expect(
            endpoint, "tier", at, lambda tier: tier in TIERS, "A, B or C", "endpoint-tier.letter", required=False
        )
        if self._expect(endpoint, "method", at, _is_text, "text", "endpoint-identity.method"):
            self._endpoint_method(endpoint["method"], (*at, "method"))
        if self._expect(endpoint, "path", at, _is_text, "text", "endpoint-identity.path"):
            self._endpoint_path(endpoint, at, words, own=own)
        self._expect(endpoint, "description", at, _is_text, "text", "endpoint-identity.description")
        if self._expect(endpoint, "semantic", at, _is_object, "an object", "semantic-block.object"):
            for member, sentence in semantic_faults(endpoint["semantic"], CATEGORIES):
                rule = f"semantic-block.{member.replace('_', '-')}"
                self._add((*at, "semantic", member), sentence.partition(" ")[2], rule)
            for member, sentence in effect_faults(endpoint, self._outcomes, self._catalog) if own else ():
                self._add((*at, "semantic", member), sentence, "semantic-block.own-effects")
        for _, sentence in parameter_faults(str(endpoint.get("method")), endpoint.get("input_schema")):
            self._add((*at, "input_schema"), sentence, "endpoint-contract.method-parameters")
        for name in ("input_schema", "output_schema"):
            rule = f"endpoint-contract.{name.replace('_', '-')}"
            if self._expect(endpoint, name, at, _is_object, "an object", rule):
                self._schema(endpoint[name], (*at, name), closed=name == "input_schema")
        listed = self._expect(endpoint, "errors", at, _is_texts, "a list of texts", "endpoint-contract.errors")
        errors = endpoint["errors"] if listed else []
        if self._expect(endpoint, "handler", at, _is_object, "an object", "endpoint-contract.handler"):
            self._handler(endpoint["handler"], (*at, "handler"), errors if listed else None)
        rule = "endpoint-contract.required-scopes"
        self._expect(endpoint, "required_scopes", at, _is_texts, "a list of texts", rule, required=False)
        self._expect(endpoint, "namespace", at, _is_text, "text", "endpoint-contract.namespace", required=False)
        rule = "endpoint-deprecation.object"
        if self._expect(endpoint, "deprecated", at, _is_object, "an object", rule, required=False):
            self._check_deprecation(endpoint["deprecated"], (*at, "deprecated"))

    def _endpoint_method(self, method: str, at: Pointer) -> None:
        if not is_method_name(method):
            self._add(at, "is not a method name (3 to 32 letters A-Z)", "method-name.endpoint")
        elif method in LEGACY:
            self._add(at, f"is the HTTP verb {method}, which no endpoint may be defined with", "legacy-verb.endpoint")
        elif self._catalog is not None and not self._catalog.knows(method) and method not in self._customs:
            known = f"neither in catalog {self._catalog.version} nor in custom_methods"
            self._add(at, f"is {known}: {method}", "endpoint-contract.method-known")

    def _endpoint_path(self, endpoint: Mapping[str, Any], at: Pointer, words: Collection[str], *, own: bool) -> None:
        path = endpoint["path"]
        faults = list(template_faults(path, words))
        for fault in faults:
            self._add((*at, "path"), f"breaks the path grammar: {fault}", "path-grammar.template")
        first = path[1:].partition("/")[0].lower()
        if not own and endpoint.get("method") == "DISCOVER" and (path == "/" or first in RESERVED):
            self._add(
                (*at, "path"),
                f"DISCOVER {path[:64]} is reserved for the server's own documents",
                "reserved-path.discover",
            )
        schema = endpoint.get("input_schema")
        properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
        for segment in [] if faults else path.split("/"):
            name = segment[1:-1]
            if segment.startswith("{") and isinstance(properties, Mapping) and name not in properties:
                here = (*at, "input_schema", "properties", name)
                self._add(here, "is missing: the path has a parameter of this name", "path-parameter.declared")

    def _schema(self, schema: Mapping[str, Any], at: Pointer, *, closed: bool) -> None:
        dialect = schema.get("$schema", DIALECT)
        if dialect != DIALECT:
            self._add((*at, "$schema"), f"is not {DIALECT}", "endpoint-contract.dialect")
            return
        if not self._is_sound(schema):
            for reference in remote_references(schema):
                self._add(at, f"refers to {reference[:128]}, outside the schema", "endpoint-contract.references")
            error = schema_error(schema)
            if error is not None:
                where, reason = error
                self._add((*at, *where), f"is not JSON Schema 2020-12: {reason}", "endpoint-contract.schema")
        if closed:
            if schema.get("type") != "object":
                self._add((*at, "type"), 'is not "object"', "endpoint-contract.input-type")
            if schema.get("additionalProperties") is not False:
                self._add((*at, "additionalProperties"), "is not false", "input-strictness.closed")

    def _is_sound(self, schema: Mapping[str, Any]) -> bool:
        """
        Return whether a schema is sound because each of its definitions is, and the rest of it.

        Definitions that many endpoints share as the same objects are examined once.
        """
        definitions = schema.get("$defs")
        if not isinstance(definitions, dict) or not definitions:
            return False
        for body in definitions.values():
            known = self._definitions.get(id(body))
            if known is None:
                known = self._definitions[id(body)] = body, isinstance(body, dict) and is_part_sound(body)
            if not known[1]:
                return False
        return is_part_sound({name: value for name, value in schema.items() if name != "$defs"})

    def _handler(self, handler: Mapping[str, Any], at: Pointer, errors: Collection[str] | None) -> None:
        for name in sorted(handler.keys() - {"type"}):
            self._add(
                (*at, name), "is shown, but only the type of a handler may be published", "endpoint-projection.handler"
            )
        if not self._expect(handler, "type", at, _is_text, "text", "endpoint-contract.handler"):
            return
        kind = handler["type"]
        if kind not in HANDLERS:
            self._add((*at, "type"), f"is not {', '.join(HANDLERS)}", "handler-binding.type")
        declared = DEMANDED.get(kind, ()) if errors is None else errors
        for name in DEMANDED.get(kind, ()):
            if name not in declared:
                self._add(
                    (*at[:-1], "errors"), f"lacks {name}, which {kind} endpoints declare", "handler-binding.errors"
                )

    def _check_deprecation(self, block: Mapping[str, Any], at: Pointer) -> None:
        self._expect(block, "deprecated_in", at, _is_text, "text", "endpoint-deprecation.deprecated-in")
        self._expect(block, "removed_in", at, _is_text, "text", "endpoint-deprecation.removed-in", required=False)
        rule = "endpoint-deprecation.successor"
        if self._expect(block, "successor", at, _is_object, "an object", rule, required=False):
            successor = block["successor"]
            for name in ("method", "path"):
                self._expect(successor, name, (*at, "successor"), _is_text, "text", rule, required=False)

    def _agents(self) -> None:
        manifest = self._manifest
        levels, rule = " or ".join(DISCLOSURES), "agent-disclosure.level"
        known = self._expect(manifest, "agent_disclosure", (), lambda level: level in DISCLOSURES, levels, rule)
        listed = self._expect(manifest, "hosted_agents", (), _is_list, "a list", "agent-disclosure.agents")
        if known and listed and manifest["agent_disclosure"] == "private" and manifest["hosted_agents"]:
            message = "is not empty, though agent_disclosure is private"
            self._add(("hosted_agents",), message, "agent-disclosure.private")
        notice, rule = "agent_disclosure_notice", "agent-disclosure.notice"
        self._expect(manifest, notice, (), _is_text_or_null, "text or null", rule, required=False)

    def _surface(self) -> None:
        for name, rule in (("apis", "protocol-surface.apis"), ("hosted_protocols", "protocol-surface.protocols")):
            if self._expect(self._manifest, name, (), _is_list, "a list", rule, required=False):
                for index, entry in enumerate(self._manifest[name]):
                    if not isinstance(entry, Mapping):
                        self._add((name, index), "is not an object", rule)
        self._data_manifest()
        protocols = self._manifest.get("hosted_protocols")
        rule = "protocol-surface.protocol-members"
        for index, entry in enumerate(protocols if isinstance(protocols, list) else ()):
            if isinstance(entry, Mapping):
                for member in ("protocol", "method", "path"):
                    self._expect(entry, member, ("hosted_protocols", index), _is_text, "text", rule)

    def _data_manifest(self) -> None:
        """Check the block of AGIS v01 section 8.3, if the manifest has one."""
        rule = "manifest-structure.data-manifest"
        if not self._expect(self._manifest, "data_manifest", (), _is_object, "an object", rule, required=False):
            return
        at: Pointer = ("data_manifest",)
        block = self._manifest["data_manifest"]
        if self._expect(block, "available_data", at, _is_list, "a list", rule):
            for index, entry in enumerate(block["available_data"]):
                here = (*at, "available_data", index)
                if not isinstance(entry, Mapping):
                    self._add(here, "is not an object", rule)
                else:
                    self._expect(entry, "class", here, _is_text, "text", rule)

    def _policies(self) -> None:
        if not self._expect(self._manifest, "policies", (), _is_object, "an object", "policies-block.object"):
            return
        policies, at = self._manifest["policies"], ("policies",)
        for name in SWITCHES:
            self._expect(policies, name, at, _is_flag, "true or false", f"policies-block.{name.replace('_', '-')}")
        rule = "policies-block.max-synthesis-depth"
        self._expect(policies, "max_synthesis_depth", at, _is_count, "a positive integer", rule)
        if self._expect(policies, "methods", at, _is_object, "an object", "method-policy.object", required=False):
            self._method_policy(policies["methods"], ("policies", "methods"))

    def _method_policy(self, policy: Mapping[str, Any], at: Pointer) -> None:
        if policy.get("allow", "*") != "*":
            self._names(policy, "allow", at, "method-policy.allow", required=False)
        self._names(policy, "disallow", at, "method-policy.disallow", required=False)
        legacy = policy.get("legacy", "NONE")
        if legacy not in ("*", "NONE") and not (_is_list(legacy) and all(verb in LEGACY for verb in legacy)):
            self._add((*at, "legacy"), f'is not "*", "NONE" or a list of {", ".join(LEGACY)}', "method-policy.legacy")
        if self._expect(policy, "aliases", at, _is_object, "an object", "method-policy.aliases", required=False):
            aliases = policy["aliases"]
            for name, target in aliases.items():
                if not isinstance(target, str):
                    self._add((*at, "aliases", name), "is not text", "method-policy.aliases")
                elif target in aliases:
                    self._add(
                        (*at, "aliases", name), f"leads to {target[:40]}, itself an alias", "method-policy.alias-chain"
                    )
        rule = "method-policy.redirects"
        if self._expect(policy, "redirects", at, _is_list, "a list", rule, required=False):
            for index, entry in enumerate(policy["redirects"]):
                here = (*at, "redirects", index)
                if not isinstance(entry, Mapping):
                    self._add(here, "is not an object", rule)
                    continue
                for member in ("from_method", "to_method"):
                    self._expect(entry, member, here, _is_text, "text", rule)
                for member in ("from_path", "to_path"):
                    self._expect(entry, member, here, _is_text, "text", rule, required=False)

    def _signature(self) -> None:
        signature = self._manifest.get(SIGNATURE)
        if signature is None:
            self._add((SIGNATURE,), "is missing: the manifest is not signed", "manifest-signature.present")
        elif not isinstance(signature, str) or signature.count(".") != 2:
            self._add((SIGNATURE,), "is not a JWS in compact form", "manifest-signature.form")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


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


def _is_moment(value: Any) -> bool:
    return _moment(value) is not None


def _moment(value: Any) -> datetime | None:
    """Return an ISO 8601 time that names its zone; None if the value is anything else."""
    if not isinstance(value, str) or "T" not in value:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
