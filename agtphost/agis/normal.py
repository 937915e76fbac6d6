"""
The canonical form of a document, in YAML or JSON (AGIS v01 section 10).

Names in their order, methods in capitals, contracts written out as JSON
Schemas, endpoints by ``METHOD /path`` where the document has them so. What is
mechanical can be mended on the way; what a person has to decide is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from agtphost.agis.document import Document, Endpoint
from agtphost.agis.passes.completeness import FIELDS
from agtphost.agis.shorthand import is_shorthand, schema_of
from agtphost.agis.words import spaced

_TOP = (
    *("agis", "service", "agtp", "description", "version"),
    *("vocabulary", "data_manifest", "schemas", "endpoints"),
)
_VOCABULARY = ("declared_verbs", "domain", "namespace", "version", "negotiable")
_ENDPOINT = ("method", "path", "semantic", "input", "output", "errors")


def normal(document: Document, *, fix: bool = False) -> dict[str, Any]:
    """
    The canonical values of a document.

    :param fix: mend what is mechanical, too: capitals of methods, lower case of paths, verbs that are declared and not
        used, or used and not declared.
    """
    found = _ordered(document.members, _TOP)
    block = _ordered(document.vocabulary, _VOCABULARY)
    endpoints = [(_method(endpoint), _path(endpoint, fix), _endpoint(endpoint)) for endpoint in document.endpoints]
    if isinstance(block.get("declared_verbs"), list):
        declared = [verb.upper() for verb in block["declared_verbs"]]
        used = dict.fromkeys(method for method, _, _ in endpoints)
        block["declared_verbs"] = [*used] if fix and {*declared} != {*used} else [*dict.fromkeys(declared)]
    elif fix:
        block = {"declared_verbs": [*dict.fromkeys(method for method, _, _ in endpoints)], **block}
    found["vocabulary"] = block
    if isinstance(document.members["endpoints"], Mapping):
        found["endpoints"] = {f"{method} {path}": members for method, path, members in endpoints}
    else:
        found["endpoints"] = [{"method": method, "path": path, **members} for method, path, members in endpoints]
    return found


def _ordered(members: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    first = {name: members[name] for name in names if name in members}
    return {**first, **{name: value for name, value in members.items() if name not in first}}


def _method(endpoint: Endpoint) -> str:
    return endpoint.verb


def _path(endpoint: Endpoint, fix: bool) -> str:
    if not fix:
        return endpoint.path
    segments = endpoint.path.partition("?")[0].split("/")
    return "/".join(each if each.startswith("{") else "-".join(spaced(each).split()).lower() for each in segments)


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    found = _ordered(
        {name: value for name, value in endpoint.members.items() if name not in ("method", "path")}, _ENDPOINT
    )
    if isinstance(found.get("semantic"), Mapping):
        found["semantic"] = _ordered(found["semantic"], FIELDS)
    for name in ("input", "output"):
        contract = found.get(name)
        if isinstance(contract, (dict, list)) and is_shorthand(contract):
            found[name] = schema_of(contract, closed=name == "input")
    return found


def as_json(value: Mapping[str, Any]) -> str:
    """JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """No aliases, and items of lists further in than what they belong to."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Plain where every reader of YAML takes it for the same text; in double quotes where one may not."""
    plain = text.replace(" ", "").replace("-", "").replace("_", "").replace("/", "").isalnum() and text[:1].isalpha()
    words = text.lower() not in {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain and words else '"')


_Dumper.add_representer(str, _text)


def as_yaml(value: Mapping[str, Any]) -> str:
    """YAML text."""
    text: str = yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
