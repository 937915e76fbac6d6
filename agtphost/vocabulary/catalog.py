"""
The method catalog: AGTP-API sections 3 and 4, companion section 16.

A catalog is a JSON document with five members: ``version``, ``embedded`` (the
protocol floor), ``legacy`` (HTTP verbs and what to say instead), ``categories``
and ``verbs``. The one that ships with the host is ``methods.json``; its
entries carry two members of our own, ``floor`` and ``standard``, with what the
core draft (core v08 section 7.2.20) and the standard methods draft (Table 51) tabulate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from agtphost.vocabulary.catalog_versions import is_version

FLOOR = (
    *("QUERY", "DISCOVER", "DESCRIBE", "INSPECT", "SUMMARIZE", "PLAN", "PROPOSE"),
    *("EXECUTE", "DELEGATE", "ESCALATE", "CONFIRM", "SUSPEND", "NOTIFY"),
    *("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE"),
)
"""The eighteen methods of every host: cognitive, mechanics, lifecycle (core v08 section 7.1)."""

READING = frozenset({"discovery", "retrieval", "analysis"})
"""Categories of methods that change nothing."""

LEGACY = ("GET", "POST", "PUT", "DELETE", "PATCH")
"""The only names that ``legacy`` may list (AGTP-API section 3.1)."""

CATEGORIES = (
    *("discovery", "retrieval", "analysis", "transaction", "modification", "creation"),
    *("notification", "mechanics", "domain_spanning"),
)
"""The nine effect classes of AGTP-API section 3.1."""

_NAME = re.compile(r"[A-Z]{3,32}", re.ASCII)
_MEMBERS = frozenset({"version", "embedded", "legacy", "categories", "verbs"})
_ENTRY_MEMBERS = frozenset(
    {"categories", "description", "deprecated_in", "removed_in", "successor", "floor", "standard"}
)


def is_method_name(text: str) -> bool:
    """``^[A-Z]+$``, 3 to 32 characters (AGTP-API section 3.2)."""
    return _NAME.fullmatch(text) is not None


class CatalogError(ValueError):
    """
    A document is not a catalog.

    :param faults: everything wrong with it, each naming the member it is in.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A method of the catalog."""

    name: str
    categories: tuple[str, ...]
    """At least one; the first is the primary one."""

    description: str
    deprecated_in: str | None = None
    """The catalog version that flagged the method; None while it is current."""

    removed_in: str | None = None
    successor: str | None = None
    floor: Mapping[str, Any] | None = None
    """``group``, ``category``, ``state_modifying``, ``idempotent``, ``errors``: core v08 section 7.2.20."""

    standard: Mapping[str, Any] | None = None
    """A Tier 2 method's ``category``, ``state_modifying``, ``idempotent`` (standard methods v01 Table 51)."""

    @property
    def reads(self) -> bool:
        """Whether the method changes nothing: as the drafts' tables have it, or by all of its categories."""
        for told in (self.floor, self.standard):
            if told is not None:
                return told.get("state_modifying") is False
        return READING.issuperset(self.categories)

    @property
    def warning(self) -> str | None:
        """The ``AGTP-Catalog-Warning`` of a deprecated method (AGTP-API section 4.4)."""
        if self.deprecated_in is None:
            return None
        parts = ["deprecated"]
        if self.successor is not None:
            parts.append(f"successor={self.successor}")
        if self.removed_in is not None:
            parts.append(f"removed_in={self.removed_in}")
        return "; ".join(parts)


class Catalog:
    """
    A checked catalog; immutable.

    :param document: the JSON object, as decoded.
    :raises CatalogError: listing everything wrong with it.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        faults = tuple(_Check(document).faults())
        if faults:
            raise CatalogError(faults)
        verbs = document.get("verbs", document.get("methods", {}))
        self.version: str = document["version"]
        self.embedded: tuple[str, ...] = tuple(document["embedded"])
        self.legacy: Mapping[str, str] = {name: entry["preferred"] for name, entry in document["legacy"].items()}
        self.categories: Mapping[str, str] = dict(document["categories"])
        self.entries: Mapping[str, CatalogEntry] = MappingProxyType(
            {name: _entry(name, verb) for name, verb in verbs.items()}
        )
        self.methods: frozenset[str] = frozenset(self.entries)
        self.warnings: Mapping[str, str] = {
            name: entry.warning for name, entry in self.entries.items() if entry.warning is not None
        }
        self._document = document
        self._pairs = _pair_index(sorted(self.methods))

    @staticmethod
    @cache
    def load() -> Catalog:
        """Return the catalog that ships with the host."""
        from importlib.resources import files  # Most commands of a client read no catalog.

        return Catalog(json.loads(files(__package__).joinpath("methods.json").read_bytes()))

    def knows(self, method: str) -> bool:
        """Return whether ``method`` is in the catalog; legacy verbs are not."""
        return method in self.methods

    def entry(self, method: str) -> CatalogEntry | None:
        """Return the catalog's entry of ``method``."""
        return self.entries.get(method)

    def reads(self, method: str) -> bool:
        """
        Return whether ``method`` changes nothing, independent of its endpoint; False for one that the catalog does not
        have.
        """
        entry = self.entry(method)
        return entry is not None and entry.reads

    def statement(self, method: str) -> str:
        """Return what ``method`` does, in a sentence; its name where the catalog does not have it."""
        entry = self.entry(method)
        return method if entry is None else entry.description

    def document(self) -> Mapping[str, Any]:
        """Return the catalog as JSON members."""
        return self._document

    def close_matches(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """
        Catalog methods whose spelling is close to ``name``, closest first: for the body of a 459.

        For a legacy verb, its replacement comes first. The cost is bounded: at most 32 letters are read.
        """
        wanted = "".join(char for char in name[:64].upper() if "A" <= char <= "Z")[:32]
        preferred = self.legacy.get(wanted)
        scores: dict[str, int] = {}
        pairs = _pairs(wanted)
        for pair in pairs:
            for word in self._pairs.get(pair, ()):
                scores[word] = scores.get(word, 0) + 1
        ranked = sorted(
            ((2 * score / (len(pairs) + len(word) + 1), word) for word, score in scores.items()),
            key=lambda found: (-found[0], found[1]),
        )
        close = [word for score, word in ranked[: limit + 1] if score >= 0.5 and word != preferred]
        return tuple(([preferred] if preferred else []) + close)[:limit]


def _pairs(word: str) -> frozenset[str]:
    """Return the pairs of neighbouring letters, the edges included: ``^B BO OO OK K$``."""
    edged = f"^{word}$"
    return frozenset(edged[at : at + 2] for at in range(len(edged) - 1)) if word else frozenset()


def _pair_index(words: list[str]) -> Mapping[str, tuple[str, ...]]:
    index: dict[str, list[str]] = {}
    for word in words:
        for pair in _pairs(word):
            index.setdefault(pair, []).append(word)
    return {pair: tuple(found) for pair, found in index.items()}


def _entry(name: str, verb: Mapping[str, Any]) -> CatalogEntry:
    return CatalogEntry(
        name=name,
        categories=tuple(verb["categories"]),
        description=verb["description"],
        deprecated_in=verb.get("deprecated_in"),
        removed_in=verb.get("removed_in"),
        successor=verb.get("successor"),
        floor=verb.get("floor"),
        standard=verb.get("standard"),
    )


class _Check:
    """The rules of AGTP-API section 3.1, over one document; ``faults`` lists the broken ones."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._faults: list[str] = []
        # Deployed catalogs call the fifth member "methods" (companion section 16).
        found = document.get("verbs", document.get("methods"))
        self._verbs: Mapping[str, Any] = found if isinstance(found, dict) else {}
        categories = document.get("categories")
        self._categories: Mapping[str, Any] = categories if isinstance(categories, dict) else {}

    def faults(self) -> list[str]:
        self._top()
        self._check_embedded()
        self._legacy()
        for name, verb in self._verbs.items():
            self._verb(name, verb)
        self._check_successors()
        return self._faults

    def _add_fault(self, fault: str) -> None:
        self._faults.append(fault)

    def _version(self, where: str, value: object) -> None:
        if not is_version(value):
            self._add_fault(f"{where} is not a version of the form MAJOR.MINOR.PATCH")

    def _top(self) -> None:
        for name in sorted(self._document.keys() - _MEMBERS - {"methods"}):
            self._add_fault(f"{name[:64]} is not a member of a catalog")
        self._version("version", self._document.get("version"))
        if not self._verbs:
            self._add_fault("verbs is missing, empty, or not an object")
        if set(self._categories) != set(CATEGORIES):
            self._add_fault(f"categories are not the nine of AGTP-API: {', '.join(CATEGORIES)}")
        for name, text in self._categories.items():
            if not isinstance(text, str) or not text:
                self._add_fault(f"categories.{name[:64]} has no description")

    def _check_embedded(self) -> None:
        embedded = self._document.get("embedded")
        if not isinstance(embedded, list) or sorted(map(str, embedded)) != sorted(FLOOR):
            self._add_fault("embedded is not the list of the eighteen floor methods")
        missing = [name for name in FLOOR if name not in self._verbs]
        self._faults.extend(f"verbs lacks the floor method {name}" for name in missing)

    def _legacy(self) -> None:
        legacy = self._document.get("legacy")
        if not isinstance(legacy, dict) or set(legacy) != set(LEGACY):
            self._add_fault(f"legacy does not list exactly {', '.join(LEGACY)}")
            return
        for name, entry in legacy.items():
            preferred = entry.get("preferred") if isinstance(entry, dict) else None
            if preferred not in self._verbs:
                self._add_fault(f"legacy.{name}.preferred is not a verb of this catalog")

    def _verb(self, name: str, verb: object) -> None:
        where = f"verbs.{name[:64]}"
        if not is_method_name(name):
            self._add_fault(f"{where} is not a method name (3 to 32 letters A-Z)")
        elif name in LEGACY:
            self._add_fault(f"{where} is an HTTP verb, which belongs in legacy")
        if not isinstance(verb, dict):
            self._add_fault(f"{where} is not an object")
            return
        for member in sorted(verb.keys() - _ENTRY_MEMBERS):
            self._add_fault(f"{where}.{member[:64]} is unknown")
        description = verb.get("description")
        if not isinstance(description, str) or not description.strip():
            self._add_fault(f"{where}.description is missing or empty")
        categories = verb.get("categories")
        known = isinstance(categories, list) and {*map(str, categories)} <= {*CATEGORIES}
        if not known or not categories:
            self._add_fault(f"{where}.categories is not a list of one or more of the nine categories")
        self._deprecation(where, verb)
        for member in ("floor", "standard"):
            if member in verb and not isinstance(verb[member], dict):
                self._add_fault(f"{where}.{member} is not an object")

    def _deprecation(self, where: str, verb: Mapping[str, Any]) -> None:
        for member in ("deprecated_in", "removed_in"):
            if member in verb:
                self._version(f"{where}.{member}", verb[member])
        if "successor" in verb and self._successor_of(verb) is None:
            self._add_fault(f"{where}.successor is not a verb of this catalog")
        if "deprecated_in" not in verb and ("removed_in" in verb or "successor" in verb):
            self._add_fault(f"{where} has a removal or a successor, but no deprecated_in")

    def _successor_of(self, verb: object) -> str | None:
        successor = verb.get("successor") if isinstance(verb, dict) else None
        return successor if isinstance(successor, str) and successor in self._verbs else None

    def _check_successors(self) -> None:
        """Check that no verb succeeds itself, at one step or at many, so that following successors always ends."""
        settled: set[str] = set()
        for name in self._verbs:
            trail: dict[str, None] = {}
            at: str | None = name
            while at is not None and at not in settled and at not in trail:
                trail[at] = None
                at = self._successor_of(self._verbs[at])
            if at is not None and at in trail:
                words = list(trail)
                circle = [word[:64] for word in words[words.index(at) :]]
                self._add_fault(
                    f"verbs.{circle[0]}.successor leads back to itself: {' -> '.join([*circle, circle[0]][:8])}"
                )
            settled.update(trail)
