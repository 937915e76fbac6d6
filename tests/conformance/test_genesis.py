"""The runner's own check of a Genesis refuses what the host's reader refuses, and nothing else."""

from __future__ import annotations

import base64
import json

import pytest

from agtphost.conformance.genesis import check_genesis
from agtphost.conformance.verdict import Failure
from agtphost.identity.canonical import CanonicalError
from agtphost.identity.encoding import encode
from agtphost.identity.genesis import Genesis, GenesisError
from tests.identity.samples import reference_genesis, resign
from tests.identity.test_genesis import AMBIGUOUS, KEY, MEMBERS, OCTETS, dump, mutations
from tests.rows import each_row

OTHERWISE = {
    *("a lone high surrogate", "a lone low surrogate", "surrogates the wrong way round", "owner decomposed"),
    *("nested 33 deep", "half a million names", "too long"),
}
"""Texts without canonical form or with another hash, which the case tests before; and some beyond the host's limits."""

SMALL_ORDERS = (
    *("00" * 32, f"01{'00' * 31}", *(f"{first}{'ff' * 30}7f" for first in ("ec", "ed", "ee"))),
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
)
"""The points of small order of edwards25519 as keys, those with another text of the same point among them."""

_INFO = base64.b64encode(bytes.fromhex("302a300506032b6570032100" + SMALL_ORDERS[0])).decode()
SMALL_ORDER_PEM = f"-----BEGIN PUBLIC KEY-----\n{_INFO}\n-----END PUBLIC KEY-----\n"


def is_refused(octets: bytes) -> bool:
    try:
        check_genesis(octets)
    except (Failure, RecursionError):  # The runner counts both as failures.
        return True
    return False


def test_verdicts_are_those_of_the_host() -> None:
    """Each member is removed and replaced, and the result signed again: both readers say the same of it."""
    # The case has read the key, and verified the signature with it, before the form is checked.
    changed = [each for each in mutations(MEMBERS) if not each[0].startswith("issuer_public_key=")]
    changed += [(f"tier 1, {path}", {**MEMBERS, "trust_tier": 1, "verification_path": path, **more})
                for path in ("dns-anchored", "log-anchored", "hybrid", "org-asserted", "self-signed", None)
                for more in ({}, {"org_domain": "acme.tld"}, {"log_inclusion_proof": {"a": 1}})]  # fmt: skip
    verdicts = set()
    for what, members in changed:
        try:
            octets = resign(KEY, members)
        except CanonicalError:
            continue
        try:
            Genesis.load(octets)
        except GenesisError as error:
            assert is_refused(octets), f"{what}: {error}"
            verdicts.add(False)
        else:
            check_genesis(octets)
            verdicts.add(True)
    assert verdicts == {True, False}


SPELLED = KEY.public.text
NEIGHBOUR = SPELLED[:-1] + chr(ord(SPELLED[-1]) + 1)
"""The same octets in a text with non-zero trailing bits: the last character of a key is one of AEIMQUYcgkosw048."""

VALUES: tuple[tuple[str, object], ...] = (
    *(("issued_at", f"2026-06-30T23:59:{text}") for text in ("60Z", "59Z", "59+12:60", "59+24:00", "59-00:00", "59.Z")),
    *(("issued_at", f"{year}-01-01T00:00:00Z") for year in ("0000", "0001", "9999")),
    *(("issued_at", f"{day}T00:00:00Z") for day in ("2024-02-29", "2026-02-29", "2026-13-01")),
    *(("agent_public_key", text) for text in (SPELLED, f"{SPELLED}=", f"{SPELLED}==", NEIGHBOUR, f" {SPELLED}\n")),
    *(("agent_public_key", f"{'A' * 40}{last}") for last in ("AAA", "+/8", "-_8")),
    *(("agent_public_key", text) for text in (KEY.public.pem.decode(), SMALL_ORDER_PEM)),
)


@each_row("name, value", VALUES)
def test_times_and_keys_are_read_as_the_host_reads_them(name: str, value: object) -> None:
    octets = resign(KEY, {**MEMBERS, name: value})
    try:
        Genesis.load(octets)
    except GenesisError:
        assert is_refused(octets)
    else:
        check_genesis(octets)


@each_row("y", SMALL_ORDERS)
def test_a_key_under_which_anybody_signs_is_refused(y: str) -> None:
    """For each sign of its x."""
    for octets in (bytes.fromhex(y), (int(y, 16) | 0x80).to_bytes(32)):
        assert is_refused(resign(KEY, {**MEMBERS, "agent_public_key": encode(octets).decode()}))


@each_row("name", ("issuer_public_key", "signature"))
def test_a_text_with_bits_that_belong_to_nothing_is_refused(name: str) -> None:
    document = json.loads(OCTETS)
    text = document[name]
    assert is_refused(dump({**document, name: text[:-1] + chr(ord(text[-1]) + 1)}))


def test_the_shape_of_deployed_implementations_is_accepted() -> None:
    check_genesis(OCTETS)
    check_genesis(dump(reference_genesis(KEY)[0]))


@each_row("name", sorted(AMBIGUOUS.keys() - OTHERWISE))
def test_an_ambiguous_text_is_refused(name: str) -> None:
    assert is_refused(AMBIGUOUS[name])


def test_a_refusal_names_the_member() -> None:
    with pytest.raises(Failure, match="/trust_tier is not one of"):
        check_genesis(dump({**MEMBERS, "trust_tier": 7}))
