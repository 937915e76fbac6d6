"""
Automatic corrections of a document: capitals, snake_case, slashes and braces of paths, verbs, suppressions.

Nothing is changed that needs a decision: a verb in a path stays, and so does a name whose corrected form is taken.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.document import AgisDocument, AgisEndpoint, capitals, endpoints
from agtphost.agis.document_reader import Tree
from agtphost.agis.passes.path_syntax import corrected_segment
from agtphost.agis.shorthand import is_shorthand, schema_of
from agtphost.agis.suppression import MEMBER, place_of, unused_suppressions
from agtphost.agis.validation import validate_tree
from agtphost.agis.words import to_snake_case

_ELSEWHERE = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"dependentRequired", "dependentSchemas", "dependencies", "patternProperties", "propertyNames"}
)
"""Keywords of an input that may refer to its parameters; such an input is not renamed."""


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
"""Names that can be converted to snake_case without loss."""


@dataclass(kw_only=True)
class _Autofix:
    root: dict[str, Any]
    changes: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """New names of endpoints by their old ones."""

    def change(self, where: str, was: str, now: str) -> None:
        self.changes.append(f"{where}: {was} is {now}")


def apply_fixes(document: AgisDocument) -> tuple[AgisDocument, tuple[str, ...]]:
    """
    Return a document with all automatic corrections.

    :return: the document, without the lines of its text; and one line for each change. Without changes: the same
        document.
    """
    mending = _Autofix(root=copy.deepcopy(dict(document.members)))
    _endpoints(mending, endpoints(mending.root))
    _vocabulary(mending)
    _suppressions(mending)
    if not mending.changes:
        return document, ()
    tree = Tree(root=mending.root)
    return AgisDocument(tree=tree, endpoints=tuple(endpoints(mending.root))), tuple(mending.changes)


def _endpoints(mending: _Autofix, found: Iterator[AgisEndpoint]) -> None:
    listed = [*found]
    taken = {(endpoint.verb, endpoint.path) for endpoint in listed}
    written: dict[str, Any] = {}
    for endpoint in listed:
        members: dict[str, Any] = dict(endpoint.members)
        renamed = _parameters(mending, endpoint, members)
        _errors(mending, endpoint, members)
        path = _path(endpoint.path, renamed)
        if path != endpoint.path and (endpoint.verb, path) in taken:
            path = endpoint.path
        taken.add((endpoint.verb, path))
        method = capitals(endpoint.method)
        name = f"{method} {path}"
        if name != endpoint.name:
            mending.change("endpoints", endpoint.name, name)
        mending.places[place_of(endpoint.name)] = name
        if endpoint.keyed:
            # An endpoint that differs only in capitals is defined twice, and stays for a person to resolve.
            written[name if name not in written else endpoint.name] = members
        else:
            mending.root["endpoints"][endpoint.at[1]] = {**members, "method": method, "path": path}
    if written and len(written) == len(listed):
        mending.root["endpoints"] = written


def _path(path: str, renamed: Mapping[str, str]) -> str:
    if "?" in path or "#" in path:
        return path  # The variable part belongs into the input, but its type is unknown here.
    mended_path = re.sub("/{2,}", "/", "/".join(corrected_segment(each, renamed) for each in path.split("/")))
    return mended_path if mended_path.startswith("/") else f"/{mended_path}"


def _parameters(mending: _Autofix, endpoint: AgisEndpoint, members: dict[str, Any]) -> Mapping[str, str]:
    """
    Rename the parameters of an input, and references to them, to snake_case.

    :return: the new names by the old ones.
    """
    contract = members.get("input")
    if isinstance(contract, (dict, list)) and is_shorthand(contract):
        contract = schema_of(contract, closed=True)
    if not isinstance(contract, dict) or _ELSEWHERE & contract.keys():
        return {}
    known = contract.get("properties")
    if not isinstance(known, dict):
        return {}
    renamed = _find_renames(known)
    if not renamed:
        return {}
    for was, now in renamed.items():
        mending.change(f"{endpoint.name} input", was, now)
    members["input"] = contract
    contract["properties"] = {renamed.get(name, name): schema for name, schema in known.items()}
    if isinstance(contract.get("required"), list):
        contract["required"] = [_new_name(renamed, name) for name in contract["required"]]
    semantic = members.get("semantic")
    if isinstance(semantic, dict) and isinstance(semantic.get("parameter_hints"), dict):
        hints = semantic["parameter_hints"]
        if not any(now in hints for now in renamed.values()):
            semantic["parameter_hints"] = {renamed.get(name, name): phrases for name, phrases in hints.items()}
    return renamed


def _new_name(renamed: Mapping[str, str], name: Any) -> Any:
    return renamed.get(name, name) if isinstance(name, str) else name


def _find_renames(names: Any) -> dict[str, str]:
    """Return the names that are not in snake_case, with their new ones unless these are taken."""
    found: dict[str, str] = {}
    taken = {*names}
    for name in names:
        now = to_snake_case(name)
        if now not in taken and _NAME.fullmatch(name):
            found[name] = now
            taken.add(now)
    return found


def _errors(mending: _Autofix, endpoint: AgisEndpoint, members: dict[str, Any]) -> None:
    given = members.get("errors")
    if not isinstance(given, list):
        return
    renamed = _find_renames([name for name in given if isinstance(name, str)])
    for was, now in renamed.items():
        mending.change(f"{endpoint.name} errors", was, now)
    members["errors"] = [_new_name(renamed, name) for name in given]


def _vocabulary(mending: _Autofix) -> None:
    block = mending.root["vocabulary"]
    used = [*dict.fromkeys(capitals(endpoint.method) for endpoint in endpoints(mending.root))]
    given = block.get("declared_verbs")
    declared = [*dict.fromkeys(map(capitals, given or []))]
    wanted = declared if {*declared} == {*used} else used
    if wanted != given:
        mending.change("vocabulary.declared_verbs", ", ".join(given or []) or "nothing", ", ".join(wanted))
        mending.root["vocabulary"] = {"declared_verbs": wanted, **block} | {"declared_verbs": wanted}


def _suppressions(mending: _Autofix) -> None:
    """Update the suppressions of renamed endpoints, and remove unused ones."""
    listed = mending.root.get(MEMBER)
    if not isinstance(listed, list):
        return
    for entry in listed:
        if isinstance(entry, dict) and isinstance(entry.get("endpoint"), str):
            entry["endpoint"] = mending.places.get(place_of(entry["endpoint"]), entry["endpoint"])
    idle = {*unused_suppressions(validate_tree(Tree(root=mending.root)).findings)}
    for index in sorted(idle):
        mending.changes.append(f"{MEMBER}[{index}]: {listed[index]['rule']} suppressed nothing, and was removed")
    kept = [entry for index, entry in enumerate(listed) if index not in idle]
    if kept:
        mending.root[MEMBER] = kept
    else:
        del mending.root[MEMBER]
