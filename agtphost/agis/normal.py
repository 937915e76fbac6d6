"""
The canonical form of a document, in YAML or JSON (AGIS v01 section 10).

Members are in a fixed order, methods in capitals, contracts written out as JSON Schemas, and endpoints keyed by
``METHOD /path`` if the document has them so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import yaml

from agtphost.agis.document import AgisDocument, AgisEndpoint, capitals
from agtphost.agis.passes.completeness import FIELDS
from agtphost.agis.shorthand import is_shorthand, schema_of

_TOP = (
    *("agis", "service", "agtp", "description", "version"),
    *("vocabulary", "data_manifest", "schemas", "endpoints", "suppressions"),
)
_VOCABULARY = ("declared_verbs", "domain", "namespace", "version", "negotiable")
_POWERS = re.compile(r'"(?:[^"\\]|\\.)*+"|-?[0-9.]++e[-+]?[0-9]+')
"""JSON texts, which contain no numbers, and numbers with powers of ten."""

LONGEST_NUMBER = 64
"""Characters of a number that are accepted."""

_ENDPOINT = ("method", "path", "semantic", "input", "output", "errors")


def to_canonical(document: AgisDocument) -> dict[str, Any]:
    """Return the canonical values of a document."""
    found = _order_members(document.members, _TOP)
    block = _order_members(document.vocabulary, _VOCABULARY)
    endpoints = [(capitals(endpoint.method), endpoint.path, _endpoint(endpoint)) for endpoint in document.endpoints]
    if isinstance(block.get("declared_verbs"), list):
        block["declared_verbs"] = [*map(capitals, block["declared_verbs"])]
    found["vocabulary"] = block
    if isinstance(document.members["endpoints"], Mapping):
        own, named = {endpoint.name for endpoint in document.endpoints}, dict[str, Any]()
        for endpoint, (method, path, members) in zip(document.endpoints, endpoints, strict=True):
            name = f"{method} {path}"
            # An endpoint that is defined twice, with different capitals, stays for a person to resolve.
            named[endpoint.name if name in own or name in named else name] = members
        found["endpoints"] = named
    else:
        found["endpoints"] = [{"method": method, "path": path, **members} for method, path, members in endpoints]
    return found


def _order_members(members: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    first = {name: members[name] for name in names if name in members}
    return {**first, **{name: value for name, value in members.items() if name not in first}}


def _endpoint(endpoint: AgisEndpoint) -> dict[str, Any]:
    found = _order_members(
        {name: value for name, value in endpoint.members.items() if name not in ("method", "path")}, _ENDPOINT
    )
    if isinstance(found.get("semantic"), Mapping):
        found["semantic"] = _order_members(found["semantic"], FIELDS)
    for name in ("input", "output"):
        contract = found.get(name)
        if isinstance(contract, (dict, list)) and is_shorthand(contract):
            found[name] = schema_of(contract, closed=name == "input")
    return found


def as_json(value: Mapping[str, Any]) -> str:
    """Return a value as JSON text."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return _POWERS.sub(lambda found: found[0] if found[0][0] == '"' else _decimal(float(found[0])), text)


def _decimal(number: float) -> str:
    """Return a number in decimal notation, if that is not too long to be read again."""
    text = format(Decimal(repr(number)), "f")
    text = text if "." in text else f"{text}.0"
    return text if len(text) <= LONGEST_NUMBER else repr(number)


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases, with indented lists."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a plain scalar if every YAML reader reads it as the same text; otherwise a quoted one."""
    plain = text.replace(" ", "").replace("-", "").replace("_", "").replace("/", "").isalnum() and text[:1].isalpha()
    words = text.lower() not in {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain and words else '"')


def _float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    text = _decimal(number)
    if "e" in text:
        return dumper.represent_float(number)
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _float)


def as_yaml(value: Mapping[str, Any]) -> str:
    """Return a value as YAML text."""
    text: str = yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
