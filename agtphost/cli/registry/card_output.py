"""Print cards and entries for people: the evidence for a card, and separately its claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from agtphost.cli.output import print_fields, print_table, visible

LONGEST = 60
"""Most characters of a description in a table."""


def print_cards(entries: Iterable[Mapping[str, Any]]) -> None:
    """Print a list of cards; results of a search have scores."""
    entries = list(entries)
    scored = any("score" in each for each in entries)
    head = (*(["SCORE"] if scored else ()), "ID", "NAME", "STATE", "VERIFIED", "QUALITY", "DESCRIPTION")
    rows: list[tuple[object, ...]] = []
    for each in entries:
        said = (each.get("id"), each.get("name"), state_of(each), render_evidence(each), quality(each), _short(each))
        rows.append((score_of(each), *said) if scored else said)
        for operation in _operations(each):
            said = (f"  {operation.get('name', '')}", "", "", "", "", _short(operation))
            rows.append((score_of(operation), *said) if scored else said)
    print_table(head, rows, whole=("ID",))


def score_of(entry: Mapping[str, Any]) -> str:
    """Return the score as the registry gave it."""
    score = entry.get("score")
    return f"{score:.2f}" if isinstance(score, (int, float)) and not isinstance(score, bool) else "-"


def state_of(entry: Mapping[str, Any]) -> str:
    """Return whether the agent is available, and whether it should be used."""
    state, status = entry.get("state"), entry.get("status")
    said = [str(state)] if state else []
    if status and status != "active":
        said.append(str(status))
    if entry.get("pending"):
        said.append("changed")
    return ", ".join(said) or "-"


def render_evidence(entry: Mapping[str, Any]) -> str:
    """
    Return the evidence for a card: what the registry verified, and separately the card's claim.

    ``signed`` is a verified signature, ``tier 1`` the trust tier of an agent that the host serves; ``says so`` is only
    a claim of the card.
    """
    trust = entry.get("trust")
    trust = trust if isinstance(trust, Mapping) else {}
    signature, tier = trust.get("card_signature"), trust.get("agtp")
    said = {"verified": ["signed"], "invalid": ["BAD SIGNATURE"]}.get(str(signature), [])
    if isinstance(tier, int) and not isinstance(tier, bool):
        said = [*said, f"tier {tier}"]
    if not said and _certification(entry).get("verified") is True:
        said = ["says so"]
    return ", ".join(said) or "-"


def quality(entry: Mapping[str, Any]) -> str:
    """Return the quality that the card claims."""
    certification = _certification(entry)
    score = certification.get("quality_score", certification.get("quality"))
    return f"{score}"[:12] if isinstance(score, (int, float, str)) and not isinstance(score, bool) else "-"


def _certification(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    value = entry.get("certification")
    return value if isinstance(value, Mapping) else {}


def _operations(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    value = entry.get("operations")
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _short(entry: Mapping[str, Any]) -> str:
    first = str(entry.get("description", "")).strip().partition("\n")[0]
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 3]}..."


def print_card(card: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Print a whole card with the inputs of its operations."""
    listed = ("id", "name", "description", "endpoint", "authentication", "provider", "version", "license")
    texts = ("capabilities", "tags", "supported_languages", "protocols")
    facts: list[tuple[str, Any]] = [(name, card.get(name)) for name in listed]
    for name in texts:
        value = card.get(name)
        facts.append((name, ", ".join(map(str, value)) if isinstance(value, list) else ""))
    facts += [("verified", render_evidence({**card, **fields})), ("quality", quality(card))]
    print_fields([*facts, *((name.lower(), value) for name, value in fields.items() if isinstance(value, str))])
    operations = _operations(card)
    if operations:
        click.echo("operations")
        print_table(
            ("OPERATION", "TAKES", "DESCRIPTION"),
            ((each.get("name"), _takes(each.get("input_schema")), _short(each)) for each in operations),
        )
    elif isinstance(card.get("inputs"), Mapping):
        click.echo(visible(f"takes  {_takes(card['inputs'])}"))


def _takes(schema: Any) -> str:
    """Return the names of the members, optional ones in brackets."""
    if not isinstance(schema, Mapping):
        return ""
    properties = schema.get("properties") if "properties" in schema or "type" in schema else schema
    required = schema.get("required") if "properties" in schema else list(properties or ())
    required = required if isinstance(required, list) else []
    if not isinstance(properties, Mapping):
        return ""
    return " ".join(str(name) if name in required else f"[{name}]" for name in properties)
