"""
A parser of proposals: the two forms of PROPOSE's body, and evaluations 1 to 4 (AGTP-API sections 10.4 and 10.6).

A proposal is untrusted. Its schemas are checked by the bounds of :mod:`agtphost.contract.schema_rules` before anything
is compiled, and nothing of it is ever run: the answer consists of the operator's own endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.method_parameters import hint, parameter_faults
from agtphost.contract.schemas import CompiledSchema, SchemaError
from agtphost.contract.semantic import MEMBERS, Semantic, is_statement, semantic, semantic_faults
from agtphost.errors import Refusal
from agtphost.negotiation import durations
from agtphost.negotiation.schema_cache import SHARE, compile_cached
from agtphost.vocabulary import paths, scopes
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason

MAX_ERRORS = 32
MAX_SCOPES = 32
_ERROR = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_CONTRACT_VERSION = re.compile(r"AGTP-API/1\.[0-9]{1,3}", re.ASCII)

FORMS = "parameters.endpoint = {method, path, semantic, ...}, or the same members together with parameters.name"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A well-formed proposal, which passed evaluations 1 to 4."""

    method: str
    path: str
    """The path template."""

    semantic: Semantic
    description: str = ""
    input_schema: CompiledSchema | None = None
    """None: the input of the endpoint that is found."""

    output_schema: CompiledSchema | None = None
    errors: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    """Scopes that the proposer requires for the endpoint."""

    data_classes: tuple[str, ...] = ()
    persistent: bool = False
    duration: int | None = None
    """Seconds; None: the host decides."""

    @property
    def template(self) -> paths.Template:
        """Return the parsed path."""
        return paths.parse_template(self.path)


def definition_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the endpoint definition in the body, in either form.

    :raises Refusal: 400 ``ambiguous-body`` for several forms, ``unsupported-body`` for none.
    """
    forms = [name for name in ("endpoint", "proposal", "name") if name in given]
    if len(forms) > 1:
        raise Refusal(
            Reason.AMBIGUOUS_BODY,
            f"The body has {' and '.join(forms)}, but a proposal must have only one form.",
            remedy=f"Send one form: {FORMS}.",
            details={"supported_forms": FORMS},
        )
    if not forms:
        raise Refusal(
            Reason.UNSUPPORTED_BODY,
            "The body has no endpoint definition.",
            remedy=f"Send {FORMS}.",
            details={"supported_forms": FORMS},
        )
    if forms == ["name"]:
        return given
    definition = given[forms[0]]
    if not isinstance(definition, Mapping):
        raise Refusal(
            Reason.UNSUPPORTED_BODY,
            f"{forms[0]} must be an object.",
            remedy=f"Send {FORMS}.",
            details={"supported_forms": FORMS},
        )
    return definition


def data_classes_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the data classes that a body names, in its definition and outside of it, in every form."""
    found: dict[str, None] = {}
    # A definition that names a class must not hide one outside of it.
    for place in (definition_of(given), given):
        named = place.get("data_class")
        if named is None:
            continue
        listed = [named] if isinstance(named, str) else named
        if not isinstance(listed, list) or not 0 < len(listed) <= 16:
            raise Refusal(Reason.INVALID_DATA_CLASS)
        for name in listed:
            if not isinstance(name, str) or _CLASS.fullmatch(name) is None:
                raise Refusal(Reason.INVALID_DATA_CLASS)
            found[name] = None
    return tuple(found)


class ProposalReader:
    """
    Parser of proposals.

    :param catalog: the host's method catalog.
    :param custom: methods that the catalog lacks.
    """

    def __init__(self, catalog: Catalog, custom: Collection[str] = ()) -> None:
        self._catalog = catalog
        self._known = frozenset(catalog.methods) | frozenset(custom)

    def read(self, given: Mapping[str, Any]) -> Proposal:
        """
        Run evaluations 1 to 4, in their order.

        :param given: the parameters of PROPOSE.
        :raises Refusal: 459, 460, or 400.
        """
        definition = definition_of(given)
        method = self._method(definition)
        path = self._path(definition)
        block = self._semantic(definition)
        taken = self._schema(definition, "input_schema")
        out = self._schema(definition, "output_schema")
        self._require_declared(path, taken)
        for name, sentence in parameter_faults(method, None if taken is None else taken.schema):
            raise Refusal(Reason.INVALID_SCHEMA, f"{sentence}.", remedy=f"{hint(name)}.")
        return Proposal(
            method=method,
            path=path,
            semantic=block,
            description=_description(definition, block),
            input_schema=taken,
            output_schema=out,
            errors=_names(definition, "errors", _ERROR, MAX_ERRORS),
            required_scopes=_scopes(definition, given),
            data_classes=data_classes_of(given),
            persistent=_flag(given, "persistent"),
            duration=_duration(given),
        )

    def _method(self, definition: Mapping[str, Any]) -> str:
        method = definition.get("method")
        if isinstance(method, str) and method in self._known:
            return method
        shown = method[:64] if isinstance(method, str) else ""
        raise Refusal(
            Reason.METHOD_VIOLATION,
            "The proposed method is not in the method catalog of this host.",
            remedy="Propose a catalog method; the closest ones are listed.",
            details={
                "method": shown,
                "catalog_version": self._catalog.version,
                "close_matches": list(self._catalog.close_matches(shown)),
            },
        )

    def _path(self, definition: Mapping[str, Any]) -> str:
        path = definition.get("path")
        if not isinstance(path, str) or len(path) > 1_024:
            fault: str | None = "The proposed path is missing, or too long."
            path = ""
        else:
            fault = next(iter(paths.template_faults(path, self._known)), None)
        if fault is None:
            return path
        named = [part for part in path.split("/") if part and any(paths.template_faults(f"/{part}", self._known))]
        raise Refusal(
            Reason.ENDPOINT_VIOLATION, fault, details={"segment": named[0][:128] if named else "", "path": path[:256]}
        )

    def _semantic(self, definition: Mapping[str, Any]) -> Semantic:
        block = definition.get("semantic")
        if not isinstance(block, Mapping):
            raise Refusal(
                Reason.INVALID_SEMANTIC,
                "The proposal has no semantic block.",
                remedy=f"Send semantic with {', '.join(MEMBERS)}.",
            )
        faults = list(semantic_faults(block, self._catalog.categories))
        if faults:
            raise Refusal(
                Reason.INVALID_SEMANTIC,
                "The semantic block has missing or wrong members.",
                remedy="Correct the members named in faults.",
                details={
                    "faults": [{"path": f"/semantic/{member}", "message": sentence} for member, sentence in faults]
                },
            )
        return semantic({member: block[member] for member in MEMBERS})

    @staticmethod
    def _schema(definition: Mapping[str, Any], name: str) -> CompiledSchema | None:
        schema = definition.get(name)
        if schema is None:
            return None
        if name == "input_schema" and isinstance(schema, Mapping) and "additionalProperties" not in schema:
            schema = {**schema, "additionalProperties": False}
        try:
            return compile_cached(schema, role="input" if name == "input_schema" else "output", share=SHARE)
        except SchemaError as error:
            raise Refusal(
                Reason.INVALID_SCHEMA,
                f"{name} is not a JSON Schema that this host accepts.",
                remedy="Correct the places in faults; the dialect is JSON Schema 2020-12.",
                details={
                    "faults": [
                        {"path": f"/{name}{fault.pointer}", "message": fault.message} for fault in error.faults[:16]
                    ]
                },
            ) from None

    @staticmethod
    def _require_declared(path: str, taken: CompiledSchema | None) -> None:
        """Require that the input schema declares the path's parameters."""
        if taken is None:
            return
        properties = taken.schema.get("properties", {})
        for name in paths.parse_template(path).parameters:
            if name not in properties:
                raise Refusal(
                    Reason.INVALID_SCHEMA,
                    f"The path has the parameter {name}, which input_schema does not declare.",
                    remedy="Declare every path parameter in input_schema.properties.",
                )


def _description(definition: Mapping[str, Any], block: Semantic) -> str:
    text = definition.get("description", block.intent)
    if not is_statement(text):
        raise Refusal(Reason.INVALID_PROPOSAL, "description must be one line of text.", remedy="Send one sentence.")
    return str(text)


def _names(definition: Mapping[str, Any], name: str, grammar: re.Pattern[str], most: int) -> tuple[str, ...]:
    listed = definition.get(name, [])
    sound = isinstance(listed, list) and len(listed) <= most
    if not sound or not all(isinstance(entry, str) and grammar.fullmatch(entry) for entry in listed):
        raise Refusal(
            Reason.INVALID_PROPOSAL, f"{name} must be a list of at most {most} names.", remedy=f"Correct {name}."
        )
    return tuple(dict.fromkeys(listed))


def _scopes(definition: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return ``required_scopes`` of the definition and ``scope_requested`` of the request (core v08 section 7.5)."""
    tokens: list[str] = []
    for value in (definition.get("required_scopes", []), given.get("scope_requested", [])):
        listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        sound = isinstance(listed, list) and len(listed) <= MAX_SCOPES
        if not sound or not all(isinstance(token, str) and scopes.is_token(token) for token in listed):
            raise Refusal(
                Reason.INVALID_PROPOSAL,
                "A scope list has an entry that is not a scope token.",
                remedy="Send tokens such as rooms:book.",
            )
        tokens.extend(listed)
    return tuple(dict.fromkeys(tokens))


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Refusal(Reason.INVALID_PROPOSAL, f"{name} must be true or false.", remedy=f"Correct {name}.")
    return value


def _duration(given: Mapping[str, Any]) -> int | None:
    version = given.get("contract_version", "AGTP-API/1.0")
    if not isinstance(version, str) or _CONTRACT_VERSION.fullmatch(version) is None:
        raise Refusal(Reason.UNSUPPORTED_CONTRACT_VERSION)
    text = given.get("requested_duration")
    if text is None:
        return None
    length = durations.seconds(text) if isinstance(text, str) else None
    if length is None:
        raise Refusal(
            Reason.INVALID_PROPOSAL,
            "requested_duration must be a duration.",
            remedy="Send ISO 8601 such as PT24H, or 24h, or 7d.",
        )
    return length
