"""Providers of standard methods, small enough to be read: a deployment puts its models in their places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agtphost import EndpointContext


def classify(ctx: EndpointContext) -> dict[str, object]:
    """CLASSIFY: each label by its share of the item's words that the taxonomy has for any label."""
    taxonomy = ctx.input["taxonomy"]
    labels = {}
    for each in taxonomy:
        member = each if isinstance(each, Mapping) else {"label": each}
        keywords = taxonomy[each] if isinstance(taxonomy, Mapping) else member.get("keywords", "")
        labels[member["label"]] = _words(f"{member['label']} {keywords}")
    found = []
    for item in ctx.input["items"]:
        hits = {label: len(words & _words(item)) for label, words in labels.items()}
        confidences = {label: hit / sum(hits.values()) for label, hit in hits.items() if hit}
        found.append({"labels": [{"label": label, "confidence": share} for label, share in confidences.items()]})
    return {"items": found}


def _words(value: Any) -> set[str]:
    return set(re.findall(r"[^\W_]+", str(value).lower()))
