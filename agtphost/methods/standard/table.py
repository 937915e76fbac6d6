"""
What each of the fifty standard methods takes, gives and changes: methods v01 sections 3 to 9.

The rows are data, one file for each category (methods v01 section 1.3), in ``tables/``. A method's parameters are those
of its table in the draft; what the draft leaves open about their form is settled here, once for the schema that is
published, the check of every request, and the page that lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from agtphost.contract.built_in_contracts import COMMON
from agtphost.contract.schemas import CompiledSchema, compile_schema
from agtphost.vocabulary import jsontext

CATEGORIES: Final = ("acquire", "compute", "transact", "integrate", "communicate", "orchestrate")
"""Methods v01 section 1.3, in its order."""

CONDITIONAL: Final = "conditional"
"""Of ``idempotent``: as the calls are that it makes."""


@dataclass(frozen=True, kw_only=True)
class StandardMethod:
    """A standard method, with the columns of the draft's tables."""

    name: str
    category: str
    """One of :data:`CATEGORIES`."""

    section: str
    """Of methods v01: ``8.9``."""

    outcome: str
    """What is true after success."""

    parameters: Mapping[str, Mapping[str, Any]]
    """By name, each with its schema."""

    required: tuple[str, ...]
    """Those that the draft marks MUST."""

    result: Mapping[str, Any]
    """The schema of the result; it may have further members."""

    changes: bool
    """State-modifying, by Table 51."""

    idempotent: bool | str
    """By the same: True, False or :data:`CONDITIONAL`."""

    errors: tuple[int, ...]
    """Status codes that the draft names, in core v08's numbers: 455 and 456 where it says 451 and 452."""

    scope: str = ""
    """What its caller must hold besides; else 455."""

    impact: str = ""
    """Empty: informational for what reads, reversible for what changes something."""

    _schemas: dict[str, CompiledSchema] = field(default_factory=dict, compare=False, repr=False)

    @property
    def writes(self) -> bool:
        """Whether something is different afterwards: messages change no state by Table 51, and yet are sent."""
        return self.changes or self.idempotent is False

    def input_schema(self, narrowed: Mapping[str, Mapping[str, Any]] | None = None) -> CompiledSchema:
        """
        Return the closed schema of what a built-in takes: the table's parameters, and what every built-in takes.

        :param narrowed: schemas that replace the table's, such as the only values that a parameter has on this host.
        """
        if narrowed:
            return compile_schema(self._input({**self.parameters, **narrowed}, closed=True), role="input")
        return self._compile("closed")

    def table_schema(self) -> CompiledSchema:
        """
        Return :func:`input_schema`, open to further parameters: an operator's endpoint in a built-in's place is held to
        it.
        """
        return self._compile("open")

    def output_schema(self) -> CompiledSchema:
        """Return the schema of the result."""
        return self._compile("output")

    def _compile(self, which: str) -> CompiledSchema:
        found = self._schemas.get(which)
        if found is None:
            if which == "closed":
                found = compile_schema(self._input(self.parameters, closed=True), role="input")
            elif which == "open":
                found = compile_schema(self._input(self.parameters, closed=False), role="output")
            else:
                found = compile_schema(self.result, role="output")
            self._schemas[which] = found
        return found

    def _input(self, parameters: Mapping[str, Mapping[str, Any]], *, closed: bool) -> dict[str, Any]:
        properties = {**COMMON, **parameters} if closed else parameters
        return {
            "type": "object",
            "additionalProperties": not closed,
            "properties": {name: dict(schema) for name, schema in properties.items()},
            "required": list(self.required),
        }


def _rows(category: str) -> dict[str, StandardMethod]:
    octets = files(__package__).joinpath("tables", f"{category}.json").read_bytes()
    return {
        name: StandardMethod(
            name=name,
            category=category,
            section=row["section"],
            outcome=row["outcome"],
            parameters=row["parameters"],
            required=tuple(row["required"]),
            result=row["result"],
            changes=row["changes"],
            idempotent=row["idempotent"],
            errors=tuple(row["errors"]),
            scope=row.get("scope", ""),
            impact=row.get("impact", ""),
        )
        for name, row in jsontext.decode(octets).items()
    }


STANDARD: Final[Mapping[str, StandardMethod]] = {
    name: row for category in CATEGORIES for name, row in _rows(category).items()
}
"""All fifty, by name, in the order of Table 51."""
