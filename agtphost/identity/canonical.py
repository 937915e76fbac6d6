"""Canonical JSON: what hashes and signatures cover (companion section 1, RFC 8785)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import rfc8785


class CanonicalError(ValueError):
    """The value has no canonical form: NaN, an integer beyond 2**53, a lone surrogate, a foreign type."""


def canonical(value: Any) -> bytes:
    """
    The RFC 8785 form: names in UTF-16 order, no white space, raw UTF-8, ECMAScript numbers.

    :raises CanonicalError: where the value has none.
    """
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as error:
        raise CanonicalError(f"it has no canonical form: {error}") from None


def ascii_escaped(value: Any) -> bytes:
    r"""
    The form that deployed implementations sign: names sorted, everything outside ASCII as ``\uXXXX``.

    Equal to :func:`canonical` for documents in ASCII without fractions.
    Only for verifying what others signed; never sent (companion section 1.4).

    :raises CanonicalError: where the value has none.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise CanonicalError(f"it has no canonical form: {error}") from None
