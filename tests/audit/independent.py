"""What the auditor's verifier (packages/agtp-verify) says of an export, for tests that ask it beside the host's own."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import agtp_verify


class Refuted(AssertionError):
    """It found something wrong."""


def verify(lines: Sequence[bytes], raw_keys: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """
    Every payload of an export that holds.

    :param raw_keys: 32 octets each; the host's first is enough.
    :raises Refuted: something in it does not hold.
    :raises ValueError: it is no export.
    """
    verdict = agtp_verify.verify(BytesIO(b"".join(lines)), raw_keys.values())
    if verdict.faults:
        raise Refuted("; ".join(fault.why for fault in verdict.faults[:5]))
    entries = [json.loads(line) for line in lines[1:-1]]
    assert verdict.records == len(entries)
    return [agtp_verify.open_signed(entry["format"], entry["signed"])[4] for entry in entries]


def members(lines: Sequence[bytes], raw_keys: Mapping[str, bytes]) -> set[str]:
    """Audit-IDs of the records that are proven to be in the host's log."""
    verdict = agtp_verify.verify(BytesIO(b"".join(lines)), raw_keys.values())
    found = {entry["audit_id"] for entry in map(json.loads, lines[1:-1]) if "proof" in entry}
    assert not verdict.faults and verdict.proven == len(found)
    return found


def b64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
