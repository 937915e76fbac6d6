"""CLASSIFY: labels of a taxonomy, and no others, for items (methods v01 section 4.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material
from agtphost.methods.standard.pure.rank import entries
from agtphost.search.index import Index, SearchEntry, SearchQuery
from agtphost.search.word_stems import split_name, terms

MAX_LABELS = 100
MAX_KEYWORDS = 200
"""Of one label."""

MAX_WORK = 400_000
"""Items times labels."""

THRESHOLD = 0.2
"""The least confidence of a label where the caller says none."""

WORDS = 400
"""Words of an item that are looked at."""

KEYWORD = 1.0
"""What a keyword says for its label."""

MEANING = 0.5
"""What the best match of a search says for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A member of the taxonomy."""

    name: str
    description: str
    keywords: tuple[tuple[str, ...], ...]
    """Each as the stems of its words."""


def labels_of(call: Mapping[str, Any]) -> list[Label]:
    """
    Read the taxonomy: names, ``{label, description, keywords}`` objects, or an object of keywords by name.

    :raises agtphost.errors.Refusal: 422 for anything else.
    """
    taxonomy = material.require(call, "taxonomy")
    if isinstance(taxonomy, Mapping):
        members = [
            {"label": name, **({"description": said} if isinstance(said, str) else {"keywords": said})}
            for name, said in taxonomy.items()
        ]
    elif isinstance(taxonomy, list):
        members = [{"label": each} if isinstance(each, str) else each for each in taxonomy]
    else:
        members = []
    if not 0 < len(members) <= MAX_LABELS:
        raise _taxonomy_error(f"taxonomy does not have 1 to {MAX_LABELS} labels.")
    found = [_label(member) for member in members]
    if len({label.name for label in found}) != len(found):
        raise _taxonomy_error("taxonomy has a label twice.")
    return found


def _taxonomy_error(what: str) -> Exception:
    example = 'Send {"billing": ["invoice", "refund"], "shipping": ["delivery"]}, or a list of labels.'
    return parameters.invalid("taxonomy", what, example)


def _label(member: Any) -> Label:
    if not isinstance(member, Mapping):
        raise _taxonomy_error("taxonomy has a label that is neither text nor an object.")
    name, description, keywords = member.get("label"), member.get("description", ""), member.get("keywords", [])
    sound = (
        isinstance(name, str)
        and 0 < len(name) <= 128
        and isinstance(description, str)
        and len(description) <= parameters.MAX_TEXT
        and isinstance(keywords, list)
        and len(keywords) <= MAX_KEYWORDS
        and all(isinstance(word, str) and 0 < len(word) <= 128 for word in keywords)
    )
    if not sound:
        raise _taxonomy_error("taxonomy has a label without a name, or with keywords that are not text.")
    words = (terms(split_name(str(name))), *(terms(word) for word in keywords))
    return Label(name=str(name), description=description, keywords=tuple({tuple(each): None for each in words if each}))


def index_of(labels: Sequence[Label]) -> list[SearchEntry]:
    """Return a search index of the labels."""
    said = [(" ".join(" ".join(word) for word in label.keywords), label.description) for label in labels]
    return [SearchEntry(label.name, f"{words} {text}") for label, (words, text) in zip(labels, said, strict=True)]


def classify(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of CLASSIFY by words.

    :raises agtphost.errors.Refusal: 422 for more items and labels than one call may have, and for parameters of another
        form.
    """
    require_bounded(call)
    return by_words(call)


def by_words(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of CLASSIFY by the words of items and labels alone."""
    items, labels = material.rows(call, "items"), labels_of(call)
    index = Index(index_of(labels))
    read = entries(items)
    found = [
        dict(index.search(SearchQuery(text=entry.embedding_text[: parameters.MAX_TEXT] or "-", limit=len(labels))).hits)
        for entry in read
    ]
    return classify_items(call, read, labels, found, "bm25")


def classify_items(
    call: Mapping[str, Any],
    read: Sequence[SearchEntry],
    labels: Sequence[Label],
    meanings: Sequence[Mapping[int, float]],
    engine: str,
) -> dict[str, Any]:
    """
    Return the result of CLASSIFY.

    :param read: the items, as a search reads them.
    :param meanings: for each item what a search found: numbers of labels with their scores from 0 to 1.
    :param engine: what searched.
    :raises agtphost.errors.Refusal: 422 for parameters of another form.
    """
    several = material.flag(call, "multi_label")
    threshold = material.share(call, "confidence_threshold", THRESHOLD)
    classes = []
    items = material.rows(call, "items")
    for number, (item, entry, meaning) in enumerate(zip(items, read, meanings, strict=True)):
        found = [
            {"label": labels[which].name, "confidence": confidence}
            for which, confidence in _confidences(entry, labels, meaning)
            if confidence >= threshold
        ]
        classes.append({"index": number, "item": item, "labels": found if several else found[:1]})
    return {"items": classes, "engine": engine, "unlabelled": sum(not each["labels"] for each in classes)}


def _confidences(entry: SearchEntry, labels: Sequence[Label], meaning: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return the confidence of each label, highest first, from its share of the evidence and the amount of it."""
    words = terms(f"{split_name(entry.name)} {entry.text}")[:WORDS]
    once = Counter(words)
    pairs = " ".join(words)
    said: dict[int, float] = {}
    for number, label in enumerate(labels):
        hits = sum(
            KEYWORD * min(once[word[0]], 3) if len(word) == 1 else 2 * KEYWORD * (f" {' '.join(word)} " in f" {pairs} ")
            for word in label.keywords
        )
        evidence = hits + MEANING * meaning.get(number, 0.0)
        if evidence:
            said[number] = evidence
    total = sum(said.values())
    found = [(number, round(each / total * (1 - 0.5 ** (1 + 2 * each)), 4)) for number, each in said.items()]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def require_bounded(call: Mapping[str, Any]) -> None:
    """
    Limit the product of items and labels.

    :raises agtphost.errors.Refusal: 422 for more items and labels than one call may have.
    """
    if len(material.rows(call, "items")) * len(labels_of(call)) > MAX_WORK:
        raise parameters.invalid(
            "items", f"There are more than {MAX_WORK} combinations of items and labels.", "Send the items in parts."
        )
