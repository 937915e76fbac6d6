"""
The contracts of the host's own endpoints, in the form that operators' endpoints have (AGTP-API sections 5.3, 6.4, 7.1).

A contract states what a built-in takes, what is true after it, and its impact. The handler reads the parameters and
refuses wrong ones with its own reasons, which ``built_in_contracts.json`` lists. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from agtphost.vocabulary import jsontext

BINDINGS = ("registered_function", "composition", "external_service")
"""The kinds of handlers (AGTP-API section 12)."""

REGISTERED = BINDINGS[0]
"""The kind of the host's own handlers."""

_PARAMETER = re.compile(r"\{([A-Za-z0-9_]+)\}")


@dataclass(frozen=True, kw_only=True)
class BuiltInContract:
    """The contract of a built-in."""

    outcome: str
    """Sentence that is true after success."""

    takes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters, each with its schema; parameters of the path are added automatically."""

    needs: tuple[str, ...] = ()
    """Required parameters, in addition to those of the path."""

    impact: str = ""
    """Empty: informational if it only reads, otherwise reversible."""

    def names(self, path: str) -> frozenset[str]:
        """Return the names of all parameters, including those of the path template."""
        return frozenset((*_PARAMETER.findall(path), *COMMON, *self.takes))

    def input_schema(self, path: str) -> dict[str, Any]:
        """
        Return the closed schema of its parameters.

        :param path: the path template.
        """
        named = _PARAMETER.findall(path)
        properties = {**dict.fromkeys(named, _TABLE["types"]["text"]), **COMMON, **self.takes}
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: dict(schema) for name, schema in properties.items()},
            "required": [*named, *self.needs],
        }


_TABLE = jsontext.decode(files(__package__).joinpath("built_in_contracts.json").read_bytes())
"""
The tables of ``built_in_contracts.json``.

``types`` has the schemas of parameters by short names, ``groups`` parameters that belong together, ``common`` those of
every built-in. All methods accept a context (core v08 section 7.2); clients without an envelope send its members (core
v08 section 5.7) together with the parameters. Each of ``contracts`` is ``METHOD /path``, or the method alone for those
that carry payloads to a server: ``with`` names its groups, ``takes`` its further parameters.

``proposal`` has both forms of a proposal: AGTP-API section 10.4, with every member of a definition (AGTP-API section
6.2); core v08 sections 7.2.7 and 7.5. ``read elsewhere`` is what a QUERY with a ``modality`` names (core v08 section
8.4).
"""


def _schemas(named: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    return {name: _TABLE["types"][kind] for name, kind in named.items()}


def _read(entry: Mapping[str, Any]) -> BuiltInContract:
    takes: dict[str, Mapping[str, Any]] = {}
    for group in entry.get("with", ()):
        takes |= _schemas(_TABLE["groups"][group])
    return BuiltInContract(
        outcome=entry["outcome"],
        takes=takes | _schemas(entry.get("takes", {})),
        needs=tuple(entry.get("needs", ())),
        impact=entry.get("impact", ""),
    )


COMMON = _schemas(_TABLE["common"])
"""Parameters that every built-in takes."""

FILTERED = tuple(_TABLE["groups"]["filter"])
"""Members of DISCOVER's ``filter`` that the drafts name; ``criteria`` may contain them as well."""

_CONTRACTS = {name: _read(entry) for name, entry in _TABLE["contracts"].items()}

CONTRACTS: Mapping[tuple[str, str], BuiltInContract] = {
    (name.partition(" ")[0], name.partition(" ")[2]): contract for name, contract in _CONTRACTS.items() if " " in name
}
"""Contracts by method and path template."""


def contract_of(method: str, path: str) -> BuiltInContract:
    """Return the contract of a built-in; those that carry payloads to a server share one for all protocols."""
    return CONTRACTS.get((method, path)) or _CONTRACTS.get(method) or _CONTRACTS[""]
