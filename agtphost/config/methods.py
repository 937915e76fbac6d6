"""``[methods]``: which of the fifty standard methods this host answers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from agtphost.config.values import Section, Table
from agtphost.vocabulary import formulas
from agtphost.vocabulary.catalog import Catalog

EVERY: Final = "*"
READING: Final = "reading"
"""In place of a list: those that change nothing, and may be repeated."""


def standard_names() -> tuple[str, ...]:
    """The fifty, in alphabetic order."""
    return tuple(entry.name for entry in Catalog.load().entries.values() if entry.standard is not None)


def reading_names() -> tuple[str, ...]:
    """Those that change nothing, and may be repeated (methods v01 Table 51)."""
    told = ((entry.name, entry.standard) for entry in Catalog.load().entries.values())
    return tuple(name for name, row in told if row and not row["state_modifying"] and row["idempotent"] is True)


def _standard(value: Any) -> str | tuple[str, ...]:
    if value in (EVERY, READING):
        return str(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError(f'must be "{EVERY}", "{READING}" or a list of method names')
    known = standard_names()
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"holds {name[:40]!r}, which is none of the fifty standard methods{meant}")
    return tuple(value)


def _formulas(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a table of formulas")
    for name, formula in value.items():
        if not formulas.is_id(name):
            raise ValueError(f"holds {str(name)[:40]!r}, which is no name of 1 to 64 letters, digits, dots and hyphens")
        if not isinstance(formula, Mapping):
            raise ValueError(f'holds {name!r}, which is no formula such as {{ op = "negate", args = [1] }}')
        try:
            formulas.checked(formula)
        except formulas.FormulaError as error:
            raise ValueError(f"holds {name!r}, which cannot be worked out: {error}") from None
    return value


_PROCEDURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}", re.ASCII)


def _procedures(value: Any) -> Any:
    for name, recipe in value.items() if isinstance(value, dict) else ():
        if not _PROCEDURE.fullmatch(name):
            raise ValueError(f"has {name[:40]!r}, which is no procedure_id such as quality-check")
        if not isinstance(recipe, str) or not recipe:
            raise ValueError(f"{name} names no recipe")
    return value


class MethodsSection(Section):
    """
    ``[methods]``: the standard methods that this host answers on ``/`` (``docs/standard-methods``). A change of it is
    taken on a reload.
    """

    standard: Annotated[str | tuple[str, ...], BeforeValidator(_standard)] = ()
    """
    Names of standard methods, ``"*"`` for all fifty, or ``"reading"`` for those that change nothing and may be
    repeated. The others are in no list, and 405.
    """

    formulas: Annotated[Mapping[str, Any], BeforeValidator(_formulas)] = Field(default_factory=dict)
    """Formulas that CALCULATE knows by name, each a tree as its callers send (``docs/data-methods``)."""

    procedures: Annotated[Table[str, str], BeforeValidator(_procedures)] = Field(default_factory=dict)
    """
    What RUN runs: recipes of ``[recipes] file`` by procedure_id, as ``quality-check = "quality@2"`` or without a
    version. Nothing else is ever run.
    """

    @cached_property
    def names(self) -> frozenset[str]:
        """The methods that are on."""
        if self.standard == EVERY:
            return frozenset(standard_names())
        if self.standard == READING:
            return frozenset(reading_names())
        return frozenset(self.standard)
