"""
CLASSIFY: labels of the caller's taxonomy, and no others, for items (methods v01 section 4.9).

Which label an item has is a provider's to say. The host checks the taxonomy before, and the labels afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material

MAX_LABELS = 100
MAX_WORK = 400_000
"""Items times labels."""


def labels_of(call: Mapping[str, Any]) -> list[str]:
    """
    Return the labels of the taxonomy: a list of names or ``{"label": ...}`` objects, or an object with names as keys.

    :raises agtphost.errors.Refusal: 422 for anything else.
    """
    taxonomy = material.require(call, "taxonomy")
    members = list(taxonomy) if isinstance(taxonomy, (list, Mapping)) else []
    if not 0 < len(members) <= MAX_LABELS:
        raise _taxonomy_error(f"taxonomy does not have 1 to {MAX_LABELS} labels.")
    found = [each.get("label") if isinstance(each, Mapping) else each for each in members]
    names = [name for name in found if isinstance(name, str) and 0 < len(name) <= 128]
    if len(names) != len(found):
        raise _taxonomy_error("taxonomy has a label without a name of 1 to 128 characters.")
    if len({*names}) != len(names):
        raise _taxonomy_error("taxonomy has a label twice.")
    return names


def _taxonomy_error(what: str) -> Exception:
    example = 'Send {"billing": ["invoice", "refund"], "shipping": ["delivery"]}, or a list of labels.'
    return parameters.invalid("taxonomy", what, example)


def check(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Check a call of CLASSIFY, and the provider's result where there is one.

    :param job: ``call``: its parameters; ``found``: the result, with ``labels`` for each of ``items``, each label
        with its ``confidence``.
    :return: ``result`` with the labels of the taxonomy that reach ``confidence_threshold``, the surest alone without
        ``multi_label``, and how many others were ``withheld``; or the ``fault`` of the provider.
    :raises agtphost.errors.Refusal: 422 for a call with parameters of another form, or too many items and labels.
    """
    call = job["call"]
    items, names = material.rows(call, "items"), labels_of(call)
    if len(items) * len(names) > MAX_WORK:
        raise parameters.invalid(
            "items", f"There are more than {MAX_WORK} combinations of items and labels.", "Send the items in parts."
        )
    several, threshold = material.flag(call, "multi_label"), material.share(call, "confidence_threshold", 0.0)
    if "found" not in job:
        return {}
    listed = job["found"].get("items")
    if not isinstance(listed, list) or len(listed) != len(items):
        return {"fault": "its result does not have one entry of items for each item of the call"}
    classes, withheld = [], 0
    for number, (item, entry) in enumerate(zip(items, listed, strict=True)):
        offered = entry.get("labels") if isinstance(entry, Mapping) else None
        if not isinstance(offered, list) or not all(map(_is_label, offered)):
            return {"fault": f"item {number} of its result has no list of labels, each with a confidence from 0 to 1"}
        found = _select_labels(offered, names, threshold)
        withheld += len(offered) - len(found)
        classes.append({"index": number, "item": item, "labels": found if several else found[:1]})
    unlabelled = sum(not each["labels"] for each in classes)
    return {"result": {"items": classes, "unlabelled": unlabelled}, "withheld": withheld}


def _is_label(offered: Any) -> bool:
    confidence = material.number(offered.get("confidence")) if isinstance(offered, Mapping) else None
    return confidence is not None and 0 <= confidence <= 1


def _select_labels(offered: Sequence[Mapping[str, Any]], names: Sequence[str], threshold: float) -> list[Any]:
    """Return each label of the taxonomy that is sure enough once, the surest first."""
    found: dict[str, Any] = {}
    for each in sorted(offered, key=lambda each: -each["confidence"]):
        if each.get("label") in names and each["confidence"] >= threshold:
            found.setdefault(each["label"], {"label": each["label"], "confidence": each["confidence"]})
    return list(found.values())
