"""A manifest that a target publishes in several documents, joined without the code that splits and reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agtphost.conformance.verdict import expect

PARTS = "parts"
MOST = 256
MOST_OCTETS = 512 << 20
"""Parts that are read of one manifest, and their octets without those of the first."""


def join_parts(first: Mapping[str, Any], fetch: Callable[[str], tuple[object, int]]) -> Mapping[str, Any]:
    """
    Return a manifest with the endpoints of all its parts; one without parts is returned unchanged.

    Every part has its number, the token of the next one, and a signature. The whole has none.

    :param fetch: returns the part of a token, and its octets.
    :raises agtphost.conformance.verdict.Failure: the parts do not belong to one manifest.
    """
    if PARTS not in first:
        return first
    parts, token, read = [_require_part(first, first, 1)], _following(first), 0
    while token:
        expect(len(parts) < MOST, f"the manifest is incomplete: it has more than {MOST} parts")
        fetched, octets = fetch(token)
        read += octets
        expect(read <= MOST_OCTETS, f"the manifest is incomplete: it has more than {MOST_OCTETS} octets")
        parts.append(_require_part(fetched, first, len(parts) + 1))
        token = _following(parts[-1])
    endpoints = [each for part in parts for each in part["endpoints"]]
    for number, part in enumerate(parts, 1):
        whole = part[PARTS].get("of")
        expect(len(parts) == whole, f"the manifest is incomplete: part {number} of {len(parts)} is one of {whole!r}")
    total = first[PARTS].get("endpoints")
    expect(len(endpoints) == total, f"the manifest is incomplete: it has {len(endpoints)} endpoints, not {total}")
    joined = {name: value for name, value in first.items() if name != PARTS}
    return {**joined, "endpoints": endpoints, "manifest_signature": None}


def _following(part: Mapping[str, Any]) -> str | None:
    token = part[PARTS].get("next")
    return token if isinstance(token, str) else None


def _require_part(part: object, first: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return a part that is the one with this number of the same manifest."""
    found = part if isinstance(part, Mapping) else {}
    about = found.get(PARTS)
    sound = isinstance(about, Mapping) and isinstance(found.get("endpoints"), list)
    expect(sound, f"the manifest is incomplete: part {number} is not part of a manifest")
    given = about.get("number") if isinstance(about, Mapping) else None
    expect(given == number, f"the manifest is incomplete: the target sent part {given!r} as part {number}")
    for name in ("document_version", "server"):
        expect(found.get(name) == first.get(name), f"the manifest is incomplete: part {number} has another {name}")
    return found
