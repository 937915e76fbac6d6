"""What is approved, beside its digest: definitions that are shown to whoever decides on a changed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status

LONGEST = 8_192
"""Octets of an approved definition that is kept; of a longer one the digest alone is."""

DIGEST = "sha256"
SHOW = "show"
"""Members of an approval's payload: the digest that is approved, or true to be shown what there is to approve."""


def kept_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a pin that keep a definition; none for a long one."""
    return {"definition": dict(definition)} if len(jsontext.encode(definition)) <= LONGEST else {}


def wanted(payload: Mapping[str, Any]) -> str | None:
    """
    The digest that the approver saw; None where it asks to see.

    :raises Refusal: 422 where the payload says neither: nobody approves what was never shown.
    """
    if payload.get(SHOW) is True:
        return None
    digest = payload.get(DIGEST)
    if not isinstance(digest, str) or not digest:
        raise Refusal(
            Status.UNPROCESSABLE,
            "definition-digest-required",
            "An approval carries the digest of the definition that was shown, and this one has none.",
            remedy="Send show: true to see the present and the approved definition, then sha256 of the present one.",
            details={"parameter": DIGEST},
        )
    return digest


def shown(
    digest: str, approved: str, definition: Mapping[str, Any] | None, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What somebody decides on: both digests, and both definitions as far as they are kept."""
    return {
        "definition_digest": digest,
        "approved_digest": approved,
        "definition": None if definition is None else dict(definition),
        "approved_definition": None if before is None else dict(before),
    }
