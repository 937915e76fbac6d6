"""
VALIDATE: a target against a schema or rule set, with everything that is wrong and changes nothing (methods v01 section
4.3).

``schema`` is a JSON Schema, ``{"schema": ..., "rules": [...]}`` with rules of business besides, or the name of a rule
set: ``json-schema`` (the target is a schema itself), ``endpoint``, ``agis``, ``agis-2``, ``manifest``, ``formula``,
``criteria`` or ``call``. A warning is something to review; with ``strict`` it counts as an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost import agis
from agtphost.agis.findings import Severity
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.manifest_validation import examine
from agtphost.contract.schemas import CompiledSchema, SchemaError, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import criteria, material
from agtphost.methods.standard.pure.transform import callers_schema, faults_of
from agtphost.vocabulary import formulas, jsontext, tomltext
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.reasons import Reason

MAX_FINDINGS = 200
MAX_RULES = 100
MAX_TEXT = 262_144
SETS = ("json-schema", "endpoint", "agis", "agis-2", "manifest", "formula", "criteria", "call")

WITH_CATALOG = ("endpoint", "manifest")
"""Rule sets that ask for the methods that there are."""

CATALOG = "agtphost-catalog"
"""A further parameter: the document of the host's catalog, if it is not the one of this package."""

_MEMBERS = 20_000
"""Members that are looked at for those that a schema does not declare."""

Said = dict[str, Any]


@dataclass(kw_only=True)
class Findings:
    """The errors and warnings of a check."""

    errors: list[Said] = field(default_factory=list)
    warnings: list[Said] = field(default_factory=list)
    checked: str = ""

    def result(self, *, strict: bool) -> dict[str, Any]:
        """Return the result of VALIDATE."""
        valid = not self.errors and not (strict and self.warnings)
        left = max(0, len(self.errors) + len(self.warnings) - MAX_FINDINGS)
        return {
            "valid": valid,
            "status": "pass" if valid else "fail",
            "errors": self.errors[:MAX_FINDINGS],
            "warnings": self.warnings[: max(0, MAX_FINDINGS - len(self.errors))],
            "checked_as": self.checked,
            "strict": strict,
            **({"left_out": left} if left else {}),
        }


Call = Callable[[Any], Findings]
"""Looks at a proposed call; it needs the caller's rights, which no other check does."""


class Validator:
    """
    Answers VALIDATE, but for proposed calls.

    :param catalog: the methods that there are.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def validate(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the result of VALIDATE.

        :raises Refusal: 422 for a schema that is none, and a target that cannot be looked at.
        """
        target = material.require(call, "target")
        strict = material.flag(call, "strict")
        schema = call.get("schema")
        kind = kind_of(call)
        if kind in ("agis", "agis-2"):
            found = _document(target, 2 if kind == "agis-2" else 1)
        elif kind == "endpoint":
            found = self._endpoint(target)
        elif kind == "manifest":
            found = self._manifest(target)
        elif kind == "json-schema":
            found = _schema(target)
        elif kind == "formula":
            found = _refusable(lambda: formulas.check_formula(target), "formula")
        elif kind == "criteria":
            found = _refusable(lambda: criteria.compile_criteria(target, "target"), "criteria")
        elif isinstance(schema, Mapping):
            found = _data(target, schema)
        else:
            found = Findings(checked="json")
            found.warnings.append(_fault("", "the request has nothing to check it against", "schema"))
        return found.result(strict=strict)

    def _endpoint(self, target: Any) -> Findings:
        """Check an endpoint definition: TOML as the operator writes it, or the same as JSON."""
        found = Findings(checked="endpoint")
        text = _text(target) if isinstance(target, str) else _toml(target)
        # What its handler is, is known to the host that serves it alone.
        endpoints, problems = read_endpoints(text, "target", Rules(catalog=self._catalog))
        found.errors += [
            {"path": f"line {each.line}" if each.line and isinstance(target, str) else "", "message": each.message}
            | ({"fix": each.hint} if each.hint else {})
            for each in problems
        ]
        for endpoint in endpoints:
            if endpoint.deprecated is not None:
                found.warnings.append(
                    _fault("deprecated", f"{endpoint.method} {endpoint.path} is deprecated", "endpoint")
                )
        return found

    def _manifest(self, target: Any) -> Findings:
        found = Findings(checked="manifest")
        for each in examine(_decode_target(target), self._catalog):
            (found.errors if each.fault else found.warnings).append(_fault(each.pointer, each.message, each.rule))
        return found


def validate(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of VALIDATE, but for proposed calls.

    :param given: the parameters, and perhaps :data:`CATALOG`.
    """
    document = given.get(CATALOG)
    catalog = Catalog.load() if document is None else Catalog(document)
    return Validator(catalog).validate(given)


def kind_of(call: Mapping[str, Any]) -> str:
    """
    Return the requested rule set, or the one that the target indicates; empty for a schema.

    :raises Refusal: 422 for one that there is not.
    """
    schema, target = call.get("schema"), call.get("target")
    if isinstance(schema, str):
        return parameters.choice(call, "schema", SETS)
    if schema is not None and not isinstance(schema, Mapping):
        raise parameters.invalid("schema", "schema is neither a JSON Schema nor a rule set.", f"Use {', '.join(SETS)}.")
    if schema is None and isinstance(target, Mapping):
        if "agis" in target:
            return "agis"
        if isinstance(target.get("method"), str) and "parameters" in target:
            return "call"
        if isinstance(target.get("$schema"), str):
            return "json-schema"
    return ""


def _fault(path: str, message: str, rule: str) -> Said:
    return {"path": path, "message": message, "rule": rule}


def _text(target: str) -> str:
    if len(target) > MAX_TEXT:
        raise parameters.invalid("target", f"target has more than {MAX_TEXT} characters.", "Send it in parts.")
    return target


def _decode_target(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    try:
        return jsontext.decode(_text(target).encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise parameters.invalid("target", f"target is not JSON: {explain(error)[:100]}.", "Send JSON.") from None


def _toml(target: Any) -> str:
    """Return a definition that was sent as JSON as TOML, which is checked."""
    if not isinstance(target, Mapping):
        raise parameters.invalid("target", "target is not an endpoint definition.", "Send an object, or TOML as text.")
    try:
        return tomltext.write_toml(target)
    except (TypeError, ValueError) as error:
        raise parameters.invalid("target", f"target cannot be a definition: {str(error)[:100]}.", "Mend it.") from None


def _document(target: Any, level: int) -> Findings:
    found = Findings(checked=f"agis level {level}")
    if isinstance(target, str):
        verdict = agis.validate(_text(target).encode(), level=level)
    else:
        verdict = agis.validate_value(target, level=level)
    for each in verdict.findings:
        said = {**_fault(each.place, each.message, each.rule.name), "section": each.rule.section}
        said |= {"line": each.line} if each.line else {}
        said |= {"fix": each.fix} if each.fix else {}
        if each.severity is Severity.ERROR:
            found.errors.append(said)
        elif each.severity is Severity.WARNING:
            found.warnings.append(said)
    return found


def _schema(target: Any) -> Findings:
    """Report whether this host would accept a JSON Schema."""
    found = Findings(checked="json-schema")
    try:
        compile_schema(_decode_target(target), role="output", share=4)
    except SchemaError as error:
        found.errors += [_fault(fault.pointer, fault.message, "json-schema") for fault in error.faults]
    return found


def _refusable(check: Callable[[], object], kind: str) -> Findings:
    found = Findings(checked=kind)
    try:
        check()
    except formulas.FormulaError as error:
        found.errors.append(_fault("", str(error), kind))
    except Refusal as refusal:
        found.errors.append(_fault("", refusal.explanation, kind) | {"fix": refusal.remedy})
    return found


def _data(target: Any, schema: Mapping[str, Any]) -> Findings:
    """Data against a JSON Schema, and rules besides."""
    rules: Sequence[Any] = ()
    if isinstance(schema.get("rules"), list) and schema.keys() <= {"schema", "rules"}:
        rules, schema = schema["rules"], schema.get("schema", {})
    compiled = callers_schema(schema, "schema")
    found = Findings(checked="json-schema")
    found.errors += [_fault(each["path"], each["message"], each["keyword"]) for each in faults_of(target, compiled)]
    found.warnings += _find_undeclared(target, compiled)
    _check_rules(target, rules, found)
    return found


def _find_undeclared(target: Any, compiled: CompiledSchema) -> Iterator[Said]:
    """Yield members that the schema allows without declaring them, usually misspelt, and deprecated members."""
    waiting: list[tuple[Any, Any, str]] = [(target, compiled.schema, "")]
    count = 0
    while waiting and count < _MEMBERS:
        value, schema, path = waiting.pop()
        count += 1
        if not isinstance(schema, Mapping):
            continue
        if schema.get("deprecated") is True and path:
            yield _fault(path, "is deprecated", "deprecated")
        if isinstance(value, list):
            waiting += [(each, schema.get("items"), f"{path}/{number}") for number, each in enumerate(value)]
        declared = schema.get("properties")
        if not isinstance(value, Mapping) or not isinstance(declared, Mapping):
            continue
        for name, each in value.items():
            if name in declared:
                waiting.append((each, declared[name], f"{path}/{name}"))
            elif "additionalProperties" not in schema and _only(schema):
                yield _fault(f"{path}/{name}"[:200], "is not declared by the schema", "undeclared")


def _only(schema: Mapping[str, Any]) -> bool:
    """Return whether only ``properties`` declares members in a schema."""
    others = ("$ref", "$dynamicRef", "patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
    return not any(keyword in schema for keyword in others)


def _check_rules(target: Any, rules: Sequence[Any], found: Findings) -> None:
    """Check business rules: criteria as in FILTER, each with the message where they do not hold."""
    if len(rules) > MAX_RULES:
        raise parameters.invalid("schema", f"schema has more than {MAX_RULES} rules.", "Send fewer.")
    for number, rule in enumerate(rules):
        if (
            not isinstance(rule, Mapping)
            or "require" not in rule
            or not rule.keys() <= {"require", "message", "severity", "name"}
        ):
            raise parameters.invalid(
                "schema",
                f"Rule {number} is not an object of require, message, severity and name.",
                'Send {"require": {"total": {"lte": 10000}}, "message": "...", "severity": "warning"}.',
            )
        severity = parameters.choice(rule, "severity", ("error", "warning"), "error")
        if not criteria.compile_criteria(rule["require"], "schema")(target):
            name = str(rule.get("name", f"rule {number}"))[:64]
            message = str(rule.get("message", "does not follow the rule"))[:500]
            (found.errors if severity == "error" else found.warnings).append(_fault("", message, name))


def not_callable(method: str, path: str) -> Findings:
    """Return the findings for a call that the caller cannot make; they do not reveal whether others could."""
    found = Findings(checked="call")
    found.errors.append(_fault("", f"the caller can call no {method} on {path}", Reason.NOT_FOUND))
    return found
