"""
Conversion of AGTP-API endpoints to AGIS endpoints, and back.

The two drafts describe the same things in different words: ``confidence`` is ``confidence_guidance``, ``impact`` is
``impact_tier``, ``input_schema`` is ``input``; an actor is one of three, and a capability one of six. What the other
draft cannot express is reported, never dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.agis.document import AgisDocument, AgisEndpoint
from agtphost.agis.passes.completeness import ACTORS, CAPABILITIES, LONGEST, SURE
from agtphost.agis.passes.contracts import error_names, resolve_contract
from agtphost.contract.carried_call import CarriedCall
from agtphost.contract.openapi.importer import SUFFIX, Imported, ImportedEndpoint
from agtphost.contract.semantic import FOR_TOOLS, MAX_TEXT
from agtphost.vocabulary import scopes
from agtphost.vocabulary.catalog import Catalog, is_method_name

ORIGIN = "AGIS"
"""The origin of imported declarations."""

MODULE = "handlers.imported"
"""Module of a declaration's function until a person sets another one."""

UNSURE = 0.5
"""The ``confidence`` of an endpoint that declares none."""

GUIDANCE: Mapping[str, tuple[float, float]] = {
    "informational": (0.0, 0.75),
    "reversible": (0.0, SURE),
    "irreversible": (SURE, 1.0),
}
"""The least and the greatest ``confidence_guidance`` of an exported endpoint, by its impact."""

_WIDER: Mapping[str, str] = {"creation": "transaction", "domain_spanning": "modification", "mechanics": "modification"}
"""Categories of AGTP-API that AGIS lacks."""

_ERROR = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


def capability_of(category: str, impact: str) -> str:
    """
    Return one of AGIS' six capabilities for a category of AGTP-API; an endpoint that only reads stays a reading one.
    """
    if category in CAPABILITIES:
        return category
    return "retrieval" if impact == "informational" else _WIDER.get(category, "modification")


def export_endpoint(entry: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return an endpoint in the form of an AGIS document.

    :param entry: the endpoint as in a manifest (AGTP-API section 8.9).
    """
    block = entry["semantic"]
    actor, capability = str(block["actor"]), capability_of(str(block["capability"]), str(block["impact"]))
    semantic: dict[str, Any] = {
        "intent": _sentence(block["intent"]),
        "actor": actor if actor in ACTORS else "agent",
        "outcome": _sentence(block["outcome"]),
        "capability": capability,
        "confidence_guidance": _guidance(block),
        "impact_tier": block["impact"],
        "is_idempotent": block["is_idempotent"],
        **{name: block[name] for name in FOR_TOOLS if name in block},
    }
    found: dict[str, Any] = {
        "method": entry["method"],
        "path": entry["path"],
        "semantic": semantic,
        "input": _schema(entry.get("input_schema")),
        "output": _schema(entry.get("output_schema")),
        "errors": list(entry.get("errors", ())),
    }
    if entry.get("required_scopes"):
        found["required_scopes"] = list(entry["required_scopes"])
    if entry.get("deprecated"):
        found["deprecated"] = dict(entry["deprecated"])
    if entry.get("proposed"):
        found["proposed"] = True
    return found


def _guidance(block: Mapping[str, Any]) -> float:
    """
    Return how sure an agent should be.

    It replaces AGTP-API's ``confidence``, which is how sure the host is: an agent should have doubts even if the host
    never fails. So the value is limited to the range of the impact (AGIS v01 section 6).
    """
    least, most = GUIDANCE[block["impact"]]
    return min(max(float(block["confidence"]), least), most)


def _sentence(text: str) -> str:
    """Return a text cut at a word, if it is longer than AGIS allows."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 3].rpartition(" ")[0] + "..."


def _schema(schema: Any) -> dict[str, Any]:
    return dict(schema) if isinstance(schema, Mapping) and schema else {"type": "object"}


def import_endpoints(document: AgisDocument, catalog: Catalog) -> Imported:
    """
    Return the endpoints of a document as declarations for review.

    :param document: a document that conforms.
    :param catalog: the methods that the host knows; other methods are reported with what makes them known.
    """
    members = document.members
    found: list[ImportedEndpoint] = []
    skipped: list[str] = []
    files: set[str] = set()
    losses: dict[str, int] = {}
    for endpoint in document.endpoints:
        if not is_method_name(endpoint.verb):
            skipped.append(f"{endpoint.name}: a method of AGTP must have 3 to 32 letters")
            continue
        one = _EndpointImport(endpoint, document, catalog)
        table = one.table()
        for loss in one.losses:
            losses[loss.partition(":")[0]] = losses.get(loss.partition(":")[0], 0) + 1
        found.append(
            ImportedEndpoint(
                source=endpoint.name,
                method=endpoint.verb,
                path=endpoint.path,
                table=table,
                naming=tuple(one.naming),
                reviews=(*one.naming, *one.reviews),
                losses=tuple(one.losses),
                file=_file(endpoint, files),
                origin=ORIGIN,
            )
        )
    return Imported(
        title=_line(str(members["service"]))[:120],
        version=str(members["agis"]),
        endpoints=tuple(found),
        renamed=(),
        losses=losses,
        skipped=tuple(skipped),
    )


@dataclass
class _EndpointImport:
    """Converter of one endpoint into a declaration."""

    endpoint: AgisEndpoint
    document: AgisDocument
    catalog: Catalog

    def __post_init__(self) -> None:
        self.naming: list[str] = []
        self.reviews: list[str] = []
        self.losses: list[str] = []

    def table(self) -> dict[str, Any]:
        """Return the declaration."""
        endpoint = self.endpoint
        method = endpoint.verb
        if not self.catalog.knows(method):
            version = self.catalog.version
            self.naming.append(
                f"[method] {method} is not in catalog {version}: add it to [policies.methods] custom, or change it"
            )
        semantic = self._semantic()
        function = "_".join(re.findall(r"[a-z0-9]+", f"{method} {endpoint.path}".lower()))
        self.reviews.append(f"[handler] the handler is missing; write {function}, or name another function")
        required = self._scopes()
        table = {
            "method": method,
            "path": endpoint.path,
            "description": semantic["intent"],
            "errors": self._errors(),
            "required_scopes": required,
            **self._read_deprecation(),
            "handler": {"type": "registered_function", "function": f"{MODULE}.{function}"},
            "semantic": semantic,
            "input_schema": self._input(),
            "output_schema": self._contract("output"),
        }
        namespace = self.document.vocabulary.get("namespace")
        if isinstance(namespace, str):
            table["namespace"] = namespace
        return table

    def _semantic(self) -> dict[str, Any]:
        block = self.endpoint.semantic
        entry = self.catalog.entry(self.endpoint.verb)
        usual = entry.categories[0] if entry is not None else "transaction"
        found = {
            "intent": _line(str(block["intent"]))[:MAX_TEXT],
            "actor": block["actor"],
            "outcome": _line(str(block["outcome"]))[:MAX_TEXT],
            "capability": self._or("capability", block.get("capability"), usual),
            "confidence": self._confidence(block),
            "impact": self._or("impact", block.get("impact_tier"), "irreversible"),
            "is_idempotent": self._or("is_idempotent", block.get("is_idempotent"), False),
            **{name: block[name] for name in FOR_TOOLS if name in block},
        }
        if "state_transition" in block:
            said = _line(str(block["state_transition"]))[:200]
            self.losses.append(f"state_transition: {said}")
        return found

    def _or(self, name: str, value: Any, otherwise: Any) -> Any:
        if value is not None:
            return value
        self.reviews.append(f"[{name}] the document has no value; {str(otherwise).lower()} is a guess")
        return otherwise

    def _confidence(self, block: Mapping[str, Any]) -> Any:
        value = block.get("confidence_guidance")
        if value is None:
            self.reviews.append(f"[confidence] the document has no confidence_guidance; {UNSURE} is a guess")
            return UNSURE
        said = "which is how sure an agent has to be; confidence is how sure the host is"
        self.reviews.append(f"[confidence] {value} was confidence_guidance, {said}")
        return float(value)

    def _contract(self, name: str) -> dict[str, Any]:
        shared = self.document.members.get("schemas")
        shared = shared if isinstance(shared, Mapping) else {}
        return {"type": "object", **resolve_contract(self.endpoint.members[name], shared, closed=name == "input")}

    def _input(self) -> dict[str, Any]:
        """Return the input schema with the path's parameters, which AGTP-API requires to be declared."""
        schema = self._contract("input")
        properties = dict(schema.get("properties", {}))
        missing = [name for name in re.findall(r"\{([A-Za-z0-9_]+)\}", self.endpoint.path) if name not in properties]
        if not missing:
            return schema
        self.reviews.append(f"[input_schema] {', '.join(missing)} is in the path but not declared, so it is a text")
        properties |= {name: {"type": "string"} for name in missing}
        return {**schema, "properties": properties, "required": [*schema.get("required", ()), *missing]}

    def _scopes(self) -> list[str]:
        """Return the required scopes; AGIS has no member for them, but hosts' documents have them."""
        given = self.endpoint.members.get("required_scopes")
        told = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
        odd = [each for each in told if not scopes.is_token(each)]
        if odd:
            self.reviews.append(
                f"[required_scopes] left out, because it is not a valid scope: {_line(', '.join(odd))[:200]}"
            )
        found = [*dict.fromkeys(each for each in told if each not in odd)]
        said = "copied from the document; check that they are scopes of this host" if found else "none"
        self.reviews.append(f"[required_scopes] {said}{'' if found else ': list the scopes that a caller needs'}")
        return found

    def _errors(self) -> list[str]:
        names = error_names(self.endpoint.members["errors"]) or []
        fitting = [_ERROR.sub("_", name).lstrip("_.-0123456789")[:64] for name in names]
        if fitting != names:
            self.reviews.append(f"[errors] rewritten as names of AGTP-API; the document has {_line(str(names))[:200]}")
        return [*dict.fromkeys(name for name in fitting if name)]

    def _read_deprecation(self) -> dict[str, Any]:
        said = self.endpoint.members.get("deprecated")
        if not said:
            return {}
        if isinstance(said, Mapping) and isinstance(said.get("deprecated_in"), str):
            known = ("deprecated_in", "removed_in", "successor")
            return {"deprecated": {name: said[name] for name in known if name in said}}
        self.reviews.append("[deprecated] the document marks it as deprecated, but not since when")
        return {"deprecated": {"deprecated_in": "1.0"}}


def _file(endpoint: AgisEndpoint, taken: set[str]) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", endpoint.path).strip("-").lower()[:100] or "root"
    wanted = name = f"{endpoint.verb.lower()}-{slug}"
    number = 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return f"{name}{SUFFIX}"


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def tools_entry(path: str, tools: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """
    Return the tools of one path as one endpoint: EXECUTE on the path; the payload names the tool.

    :param tools: tools as operations of EXECUTE: ``tool``, ``call``, ``input_schema``.
    """
    calls: list[CarriedCall] = [each["call"] for each in tools]
    server = path.rpartition("/")[2] or "this host"
    return {
        "method": "EXECUTE",
        "path": path,
        "semantic": {
            "intent": f"Execute a tool of {server}.",
            "actor": "agent",
            "outcome": "The tool has run, and the caller has its result.",
            "capability": "transaction",
            "confidence_guidance": SURE,
            "impact_tier": "irreversible",
            "is_idempotent": False,
        },
        "input": {
            "type": "object",
            "additionalProperties": False,
            "required": ["action", "payload_type", "payload"],
            "properties": {
                "action": {"type": "string", "enum": sorted({call.action for call in calls})},
                "payload_type": {"type": "string", "enum": sorted({call.payload_type for call in calls})},
                "payload": _payload(calls),
            },
        },
        "output": {"type": "object"},
        "errors": [],
    }


def _payload(calls: Sequence[CarriedCall]) -> dict[str, Any]:
    """Return the schema of several tools' payloads; closed if each has its arguments in a separate member."""
    constants: dict[str, list[Any]] = {}
    for call in calls:
        for name, value in call.constants.items():
            constants.setdefault(name, []).append(value)
    properties: dict[str, Any] = {
        name: {"type": "string", "enum": [*dict.fromkeys(values)]}
        if all(isinstance(each, str) for each in values)
        else {}
        for name, values in constants.items()
    }
    properties.update((call.member, {"type": "object"}) for call in calls if call.member)
    required = [name for name in properties if all(name in call.constants or name == call.member for call in calls)]
    schema: dict[str, Any] = {"type": "object"}
    if all(call.member for call in calls):
        schema["additionalProperties"] = False
    if properties:
        schema |= {"required": required, "properties": properties}
    return schema


def verbs(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the methods of endpoints without duplicates."""
    yield from dict.fromkeys(entry["method"] for entry in entries)
