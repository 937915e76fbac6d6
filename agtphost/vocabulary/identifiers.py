"""
Identifiers: core v08 sections 5.5 and 6.5, AGTP-IDENTIFIERS section 9.2.

Every grammar is matched in full: a pattern that allowed a trailing newline
would let an echoed identifier add another header.
"""

from __future__ import annotations

import re

_HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OPAQUE = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_OWNER = re.compile(r"[A-Za-z0-9_:.-]{1,256}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

ZERO_AUDIT_ID = "0" * 64
"""``previous_audit_id`` of the first record of a chain (AGTP-IDENTIFIERS section 8.4)."""


def is_agent_id(text: str) -> bool:
    """Return whether a text is a canonical Agent-ID: 64 lower-case hexadecimal digits (core v08 section 6.5.4)."""
    return _HEX64.fullmatch(text) is not None


def is_audit_id(text: str) -> bool:
    """Return whether a text is an Audit-ID: the SHA-256 of a record in 64 lower-case hexadecimal digits."""
    return _HEX64.fullmatch(text) is not None


def is_opaque_id(text: str) -> bool:
    """Task-ID, Session-ID, Request-ID, Idempotency-Key: 1 to 128 visible ASCII characters."""
    return _OPAQUE.fullmatch(text) is not None


def is_owner_id(text: str) -> bool:
    """``owner-id`` of AGTP-IDENTIFIERS section 9.2."""
    return _OWNER.fullmatch(text) is not None


def is_agent_name(text: str) -> bool:
    """
    Return whether a text is an ``agent-name``, the label under ``/agents/`` (core v08 section 6.1). A label has no
    dots, so no file suffixes.
    """
    return _NAME.fullmatch(text) is not None


def uuid7(milliseconds: int, randomness: bytes) -> str:
    """
    Create a UUIDv7 (RFC 9562 section 5.7), the form of Response-ID and Action-ID.

    :param milliseconds: since the Unix epoch.
    :param randomness: 10 random octets.
    """
    digits = f"{milliseconds:012x}{randomness.hex()}"
    variant = "89ab"[randomness[2] & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[12:15]}-{variant}{digits[17:20]}-{digits[20:]}"


def uuid7_milliseconds(identifier: str) -> int:
    """Return the time in a UUIDv7, in milliseconds since the Unix epoch."""
    return int(identifier[:8] + identifier[9:13], 16)
