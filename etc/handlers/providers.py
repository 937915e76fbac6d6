"""Providers of standard methods, small enough to be read: a deployment puts its models in their places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
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
        said = _words(item)
        hits = {label: len(words & said) for label, words in labels.items()}
        confidences = {label: hit / sum(hits.values()) for label, hit in hits.items() if hit}
        found.append({"labels": [{"label": label, "confidence": share} for label, share in confidences.items()]})
    return {"items": found}


FORMS = {
    "part": r"between ([A-Z]\w*(?: [A-Z]\w*){0,5}).{0,99}? and ([A-Z]\w*(?: [A-Z]\w*){0,5})",
    "oblig": r"([A-Z][^.;\n]{0,99}\b(?:shall|must)\b(?:[^.;\n]|\.\d){1,300}\.?)",
    "date": r"(\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]+ \d{4}|[A-Z][a-z]+ \d{1,2}, \d{4})",
    "mail": r"([\w.+-]{1,64}@[\w.-]{1,99}\w)",
    "uri": r"(\w{1,9}://[^\s,;]{1,300})",
}
"""How a value looks in a text, by a part of the name or the format of its field."""


def extract(ctx: EndpointContext) -> dict[str, object]:
    """EXTRACT: what stands after the field's name and a colon, or else what has the form of the field."""
    source = ctx.input["source"]
    lines = [f"{name}: {value}" for name, value in source.items()] if isinstance(source, Mapping) else [str(source)]
    text = "\n".join(lines)[:20_000]
    data: dict[str, object] = {}
    confidence: dict[str, float] = {}
    for name, field in ctx.input["schema"]["properties"].items():
        field = field if isinstance(field, Mapping) else {}
        many = field.get("type") == "array"
        kind = field.get("items") if many else field
        kind = kind if isinstance(kind, Mapping) else {}
        label = re.search(rf"(?im)(?:^|[,;] ?){re.escape(name).replace('_', '[ _]')}: *([^\n]+)", text)
        form = next((FORMS[part] for part in FORMS if part in f"{name} {kind.get('format', '')}".lower()), "")
        labelled = re.split(", | and ", label[1]) if label and many else [label[1]] if label else []
        formed = [part for found in re.findall(form, text) for part in ([found] if isinstance(found, str) else found)]
        for share, said in ((0.9, labelled), (0.6, formed if form else [])):
            values = [value for each in said if (value := _read(each.strip(), kind)) is not None]
            if values:
                data[name], confidence[name] = values if many else values[0], share
                break
    return {"data": data, "confidence": confidence}


def _read(said: str, kind: Mapping[str, Any]) -> object:
    """A text as a value of a type; None if it is not one."""
    if "enum" in kind:
        return next((each for each in kind["enum"] if str(each).lower() == said.lower()), None)
    if kind.get("type") in ("number", "integer"):
        number = re.search(r"(?<![\d,])-?\d[\d,]{0,15}(?:\.\d{1,9})?(?![\d,])", said)
        return None if number is None else (float if "." in number[0] else int)(number[0].replace(",", ""))
    if kind.get("format") == "date":
        for form in ("%Y-%m-%d", "%d %B %Y", "%B %d, %Y"):
            try:
                return datetime.strptime(said, form).date().isoformat()
            except ValueError:
                continue
        return None
    return said if kind.get("type", "string") == "string" else None


def score_keywords(ctx: EndpointContext) -> dict[str, object]:
    """EVALUATE: the share of a criterion's keywords that the target has, in any order."""
    scores = []
    for each in ctx.input["criteria"]:
        target, keywords = ctx.input["target"], each["keywords"]
        words = _words(target.get(each["member"], target))
        found = [word for word in keywords if _words(word) <= words]
        said = f"It has {len(found)} of {len(keywords)} keywords."
        scores.append({"score": len(found) / len(keywords), "rationale": said})
    return {"scores": scores}


SHORT = {"cust": "customer", "no": "number", "qty": "quantity", "amt": "amount", "addr": "address", "tel": "phone"}


def pair_fields(ctx: EndpointContext) -> dict[str, object]:
    """MAP by meaning: fields whose names have words in common, once short ones are written out."""
    words = {
        side: {
            each["field"]: {SHORT.get(word, word) for word in map(str.lower, re.findall("[A-Z]?[a-z]+", each["field"]))}
            for each in ctx.input[side]
        }
        for side in ("source", "target")
    }
    fields = [
        {"source": source, "target": target, "confidence": len(one & other) / len(one | other)}
        for source, one in words["source"].items()
        for target, other in words["target"].items()
        if one & other
    ]
    return {"fields": fields}


def _words(value: Any) -> set[str]:
    return set(re.findall(r"[^\W_]+", str(value).lower()))
