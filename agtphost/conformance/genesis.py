"""The form of an Agent Genesis (core v08 section 6.5.2), checked without the code that makes and reads them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agtphost.conformance.signatures import decode_base64url, public_key
from agtphost.conformance.verdict import Failure, expect, fail
from agtphost.contract.schema_violations import describe_violation

_SMALL_ORDERS = frozenset(
    bytes.fromhex(text)
    for text in (
        *("00" * 32, f"01{'00' * 31}", *(f"{first}{'ff' * 30}7f" for first in ("ec", "ed", "ee"))),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)
"""Keys under which anybody can make signatures, without the sign."""


@cache
def _schema() -> jsonschema_rs.Validator:
    document = json.loads(files(__package__).joinpath("genesis.json").read_bytes())
    return jsonschema_rs.Draft202012Validator(document, offline=True)


def check_genesis(octets: bytes) -> None:
    """
    Require that a Genesis has one meaning for all readers, and the members that it must have.

    :raises Failure: it does not.
    """
    try:
        members = json.loads(
            octets.decode(),
            object_pairs_hook=_collect_distinct,
            parse_float=lambda text: fail(f"the number {text[:40]} has a fraction or an exponent"),
            parse_constant=lambda text: fail(f"{text} is not JSON"),
            parse_int=_parse_integer,
        )
        _schema().validate(members)
    except jsonschema_rs.ValidationError as error:
        place = "".join(f"/{token}" for token in error.instance_path)
        raise Failure(f"{place or 'it'} {describe_violation(error)}") from None
    except ValueError:
        raise Failure("it is not JSON in UTF-8") from None
    _check_time(members["issued_at"])
    _require_one_spelling(members["signature"])
    for name in ("issuer_public_key", "agent_public_key"):
        if members.get(name) is not None:
            _check_key(members[name])


def _check_time(text: str) -> None:
    """Require a time that exists; the schema has the form."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        fail(f"/issued_at is not a time: {text}")


def _check_key(text: str) -> None:
    """Require a key in one spelling, under which its holder alone can sign."""
    if "-----BEGIN" not in text:
        text = text.strip(" \t\r\n")
        _require_one_spelling(text)
    octets = public_key(text).public_bytes(Encoding.Raw, PublicFormat.Raw)
    shape = octets[:31] + bytes([octets[31] & 0x7F])
    expect(shape not in _SMALL_ORDERS, f"{text[:20]!r} is a key under which anybody can sign")


def _require_one_spelling(text: str) -> None:
    """Require base64url without other texts for the same octets; its padding may be there."""
    spelled = urlsafe_b64encode(decode_base64url(text)).decode()
    expect(text in (spelled, spelled.rstrip("=")), f"{text[:20]!r} has another spelling in base64url")


def _collect_distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    expect(len(found) == len(pairs), "a name occurs twice in one object")
    return found


def _parse_integer(text: str) -> int:
    expect(text != "-0", "a number is -0")
    return int(text)
