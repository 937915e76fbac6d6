"""The semantic block: an endpoint's purpose, in terms that agents reason about (AGTP-API section 7)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agtphost.contract.tool_names import hint_faults, is_tool_name
from agtphost.vocabulary.catalog import Catalog

MAX_TEXT = 1_000
"""Characters of one statement."""


class Impact(Enum):
    """The effect of calling an endpoint on the world (AGTP-API section 7.1)."""

    INFORMATIONAL = "informational"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantic:
    """The semantic block of an endpoint; every member but the last two is required."""

    intent: str
    """What the endpoint accomplishes: one imperative sentence."""

    actor: str
    """The class of agent that it is meant for; free text, never enforced."""

    outcome: str
    """Sentence that is true after success."""

    capability: str
    """One of the nine catalog categories."""

    confidence: float
    """0 to 1: how sure the host is that valid input produces the outcome. Advisory."""

    impact: Impact
    is_idempotent: bool
    mcp_tool_name: str | None = None
    """The name of its MCP tool, if it is not made of method and path (AGIS v01 section 6)."""

    parameter_hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Phrases that users say for its parameters, by name (AGIS v01 section 6)."""

    def document(self) -> dict[str, Any]:
        """Return the manifest's form; absent optional members are left out."""
        said: dict[str, Any] = {}
        if self.mcp_tool_name is not None:
            said["mcp_tool_name"] = self.mcp_tool_name
        if self.parameter_hints:
            said["parameter_hints"] = {name: list(phrases) for name, phrases in self.parameter_hints.items()}
        return {
            "intent": self.intent,
            "actor": self.actor,
            "outcome": self.outcome,
            "capability": self.capability,
            "confidence": self.confidence,
            "impact": self.impact.value,
            "is_idempotent": self.is_idempotent,
            **said,
        }


MEMBERS = ("intent", "actor", "outcome", "capability", "confidence", "impact", "is_idempotent")
"""Members that every block has (AGTP-API section 7)."""

FOR_TOOLS = ("mcp_tool_name", "parameter_hints")
"""Optional members for its MCP tool (AGIS v01 section 6)."""


def is_statement(value: object, longest: int = MAX_TEXT) -> bool:
    """Return whether ``value`` is one line of printable text."""
    return isinstance(value, str) and 0 < len(value.strip()) <= longest and value.isprintable()


def semantic_faults(block: Mapping[str, Any], categories: Collection[str]) -> Iterator[tuple[str, str]]:
    """
    Yield the faults of a semantic block, as (member, sentence).

    :param categories: categories of the catalog.
    """
    for member in MEMBERS:
        if member not in block:
            yield member, f"semantic.{member} is missing"
    for member in ("intent", "actor", "outcome"):
        if member in block and not is_statement(block[member]):
            yield member, f"semantic.{member} must be one line of text of 1 to {MAX_TEXT} characters"
    yield from _choice(block, "capability", sorted(categories))
    yield from _choice(block, "impact", [impact.value for impact in Impact])
    confidence = block.get("confidence", 0)
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 <= confidence <= 1:
        yield "confidence", f"semantic.confidence must be a number from 0.0 to 1.0, not {confidence!r:.64}"
    if not isinstance(block.get("is_idempotent", False), bool):
        yield "is_idempotent", "semantic.is_idempotent must be true or false"
    if "mcp_tool_name" in block and not is_tool_name(block["mcp_tool_name"]):
        yield (
            "mcp_tool_name",
            "semantic.mcp_tool_name must be lower-case words joined by single underscores, up to 64 characters",
        )
    if "parameter_hints" in block:
        yield from (("parameter_hints", fault) for fault in hint_faults(block["parameter_hints"]))


def _choice(block: Mapping[str, Any], member: str, choices: list[str]) -> Iterator[tuple[str, str]]:
    if member in block and block[member] not in choices:
        yield member, f"semantic.{member} is not one of {', '.join(choices)}: {block[member]!r:.64}"


def effect_faults(
    endpoint: Mapping[str, Any], outcomes: MutableMapping[str, str], catalog: Catalog | None
) -> Iterator[tuple[str, str]]:
    """
    Yield the faults of a semantic block of a server's own endpoint, as (member, sentence).

    :param outcomes: outcomes of the endpoints before it, with their methods; this one's is added.
    """
    method, block = str(endpoint.get("method")), endpoint["semantic"]
    outcome = block.get("outcome")
    if isinstance(outcome, str) and outcomes.setdefault(outcome, method) != method:
        yield "outcome", f"is also the outcome of {outcomes[outcome]}; each endpoint needs a different one"
    if method == "REVOKE" and block.get("impact") != "irreversible":
        yield "impact", "is not irreversible, but REVOKE is final"
    entry = None if catalog is None else catalog.entry(method)
    told = None if entry is None or entry.floor is None else entry.floor["idempotent"]
    if isinstance(told, bool) and block.get("is_idempotent") is not told:
        yield "is_idempotent", f"is not {str(told).lower()}, which {method} is (core v08 section 7.2.20)"


def semantic(block: Mapping[str, Any]) -> Semantic:
    """Return the value of a block without faults."""
    hints = {name: tuple(phrases) for name, phrases in block.get("parameter_hints", {}).items()}
    return Semantic(**{**block, "impact": Impact(block["impact"]), "parameter_hints": hints})
