"""
MCP annotations into the semantic block of an AGTP endpoint: adapters section 4, AGIS v01 section 6.

Annotations are hints by a server that nobody vouches for: they describe, and
never decide what a caller must prove. What the operator says wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.config.upstreams import ToolOverride

_CAPABILITY = {"informational": "retrieval", "reversible": "modification", "irreversible": "transaction"}


def impact_of(annotations: Mapping[str, Any], override: ToolOverride | None) -> str:
    """One of the three impacts; a tool that says nothing counts as destructive, as in MCP."""
    if override is not None and override.impact is not None:
        return override.impact
    if annotations.get("readOnlyHint") is True:
        return "informational"
    return "reversible" if annotations.get("destructiveHint") is False else "irreversible"


def semantic_block(definition: Mapping[str, Any], override: ToolOverride | None) -> dict[str, object]:
    """
    The block that lists show for a tool.

    :param definition: the tool as ``tools/list`` gave it.
    """
    annotations = definition.get("annotations")
    hints: Mapping[str, Any] = annotations if isinstance(annotations, dict) else {}
    impact = impact_of(hints, override)
    name = str(definition["name"])
    title = definition.get("title") or hints.get("title")
    return {
        "intent": _text(definition.get("description")) or f"Call the MCP tool {name}.",
        "actor": "agent",
        "outcome": _text(title) or f"The result of {name}.",
        "capability": _CAPABILITY[impact],
        "confidence": 0.9 if hints.get("openWorldHint") is False else 0.7,
        "impact": impact,
        "is_idempotent": impact == "informational" or hints.get("idempotentHint") is True,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
