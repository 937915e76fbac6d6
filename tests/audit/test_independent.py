"""Exports verify without this program (issue of evidence), and no bit of one can be changed unnoticed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey

from agtphost.audit.chain import RecordSigner
from agtphost.audit.export import verify_export, write_export
from agtphost.audit.writer import GroupWriter
from agtphost.identity.encoding import encode
from agtphost.stores import Selection
from tests.audit import independent
from tests.audit.drafting import ALICE, KEY, KEYS, draft, sealed, sqlite_store, transition

RAW = {KEY.kid: KEY.public.raw}


def exported(folder: Path) -> list[bytes]:
    """Both envelopes, two chains."""
    store = sqlite_store(folder)
    for events, (before, after) in (("jws", (None, "suspended")), ("cose", ("suspended", "active"))):
        writer = GroupWriter(store, RecordSigner(KEY, events), server_id="agtp.test")
        writer.load()
        sealed(writer, draft(), transition(before, after), draft(""))
    records = list(store.reader().records(Selection()))
    return list(write_export(records, server_id="agtp.test", keys=KEYS.items()))


def test_an_independent_verifier_reads_it(tmp_path: Path) -> None:
    """With nothing but the file and the public key."""
    payloads = independent.verify(exported(tmp_path), RAW)
    assert len(payloads) == 8
    assert {"agent-lifecycle-suspended"} <= {payload.get("event_type") for payload in payloads}


def test_another_library_verifies_each_record(tmp_path: Path) -> None:
    """joserfc, a JOSE implementation of somebody else's."""
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": encode(KEY.public.raw).decode()})
    registry = jws.JWSRegistry(algorithms=["EdDSA"], strict_check_header=False)
    records = [json.loads(line) for line in exported(tmp_path)[1:-1]]
    signed = [record["signed"] for record in records if record["format"] == "jws"]
    assert len(signed) == 7
    for text in signed:
        assert jws.deserialize_compact(text, key, registry=registry).payload


def test_one_flipped_bit_anywhere_is_found_by_both(tmp_path: Path) -> None:
    """In any record of the export: by ours, and by the independent one."""
    lines = exported(tmp_path)
    chosen = random.Random(7)
    for number in range(1, len(lines) - 1):
        for _ in range(12):
            changed = bytearray(lines[number])
            at = changed.index(b'"signed":"') + 10 + chosen.randrange(200)
            changed[at] ^= 1 << chosen.randrange(6)
            hostile = [*lines[:number], bytes(changed), *lines[number + 1 :]]
            assert not verify_export(hostile, KEYS).ok
            with pytest.raises((independent.Refuted, ValueError)):
                independent.verify(hostile, RAW)


def test_a_record_left_out_is_found_by_both(tmp_path: Path) -> None:
    """A gap, in the middle and at the end."""
    lines = exported(tmp_path)
    chains = [json.loads(line)["chain"] for line in lines[1:-1]]
    for number in (1 + chains.index(ALICE), len(lines) - 2):
        hostile = [*lines[:number], *lines[number + 1 :]]
        assert not verify_export(hostile, KEYS).ok
        with pytest.raises(AssertionError):
            independent.verify(hostile, RAW)
