"""
Acts that few methods have: a statement of another method that says such an act, and no other, is doubted.

"Sends a reminder" is not the opposite of DESIGN, and it deletes and pays nothing, but it is another act. The lists are
in ``families.toml``; they name the methods with which an act agrees, so that what they do not foresee is a warning.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources

from agtphost.vocabulary.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Acts of one kind, and the methods with which they agree."""

    acts: frozenset[str]
    methods: frozenset[str]


@functools.cache
def families() -> tuple[Family, ...]:
    """Return the families of ``families.toml``."""
    lists = tomllib.loads(resources.files(__package__).joinpath("families.toml").read_text("utf-8"))
    return tuple(
        Family(acts=frozenset(each["acts"].upper().split()), methods=frozenset(each["methods"].split()))
        for each in lists.values()
    )


def is_strange(method: str, act: str) -> bool:
    """Return whether an act has families, and a method of the catalog belongs to none of them."""
    found = [family for family in families() if act in family.acts]
    agrees = any(method in family.acts or method in family.methods for family in found)
    return bool(found) and not agrees and method in Catalog.load().entries
