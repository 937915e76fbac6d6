"""The form of an Agent Genesis (core v08 section 6.5.2), checked without the code that makes and reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs

from agtphost.conformance.signatures import public_key
from agtphost.conformance.verdict import Failure, expect, fail
from agtphost.contract.schema_violations import describe_violation


@cache
def _schema() -> jsonschema_rs.Validator:
    document = json.loads(files(__package__).joinpath("genesis.json").read_bytes())
    return jsonschema_rs.Draft202012Validator(document, validate_formats=True, offline=True)


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
    for name in ("issuer_public_key", "agent_public_key"):
        if members.get(name) is not None:
            public_key(members[name])


def _collect_distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    expect(len(found) == len(pairs), "a name occurs twice in one object")
    return found


def _parse_integer(text: str) -> int:
    expect(text != "-0", "a number is -0")
    return int(text)
