"""COSE_Sign1 events: verified by an independent implementation, and no other octets pass for one."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycose.keys import OKPKey
from pycose.keys.curves import Ed25519
from pycose.messages import Sign1Message

from agtphost.identity import cose, envelope
from agtphost.identity.cose import COSEError
from agtphost.identity.jws import JWSError, compact, protected_header
from tests.identity.samples import key_of
from tests.rows import each_row

KEY = key_of("cose key")
KEYS = {KEY.kid: KEY.public}
PAYLOAD = b'{"agent_id":"a","event_type":"agent-genesis-revoked"}'
MESSAGE = cose.sign1(PAYLOAD, KEY)


def test_an_independent_implementation_verifies_it() -> None:
    """AGTP-231: what pycose reads is what was signed."""
    message = Sign1Message.decode(MESSAGE)
    message.key = OKPKey(crv=Ed25519, x=KEY.public.raw)
    assert message.verify_signature() is True
    assert message.payload == PAYLOAD
    assert message.uhdr == {}


def test_what_was_signed_is_read_back() -> None:
    """And without keys it is only read."""
    assert cose.verify1(MESSAGE, KEYS) == json.loads(PAYLOAD) == cose.parse_unverified(MESSAGE)


def test_a_key_name_in_text_is_read() -> None:
    """Deployed implementations write kid as text; ours writes octets, as RFC 9052 section 3.1 has it."""
    protected = cbor2.dumps({1: -8, 4: KEY.kid, 16: cose.CONTENT_TYPE}, canonical=True)
    signature = KEY.sign(cbor2.dumps(["Signature1", protected, b"", PAYLOAD], canonical=True))
    message = cbor2.dumps(cbor2.CBORTag(18, [protected, {}, PAYLOAD, signature]), canonical=True)
    assert cose.verify1(message, KEYS) == json.loads(PAYLOAD)
    assert isinstance(cbor2.loads(cbor2.loads(MESSAGE).value[0])[4], bytes)


def forged(header: dict[Any, Any], payload: bytes = PAYLOAD, unprotected: Any = None, tag: int = 18) -> bytes:
    """Signed by the right key, but otherwise wrong."""
    protected = cbor2.dumps(header, canonical=True)
    signature = KEY.sign(cbor2.dumps(["Signature1", protected, b"", payload], canonical=True))
    return cbor2.dumps(cbor2.CBORTag(tag, [protected, unprotected or {}, payload, signature]), canonical=True)


GOOD: dict[Any, Any] = {1: -8, 4: KEY.kid.encode(), 16: cose.CONTENT_TYPE}


@each_row(
    ("message", "reason"),
    [
        (forged({**GOOD, 1: -7}), "header"),
        (forged({**GOOD, 1: 0}), "header"),
        (forged({**GOOD, 16: "application/json"}), "header"),
        (forged({**GOOD, 2: [99]}), "header"),
        (forged({1: -8, 16: cose.CONTENT_TYPE}), "header"),
        (forged({**GOOD, 4: b"another"}), "unknown-key"),
        (forged({**GOOD, 4: b"\xff"}), "unknown-key"),
        (forged({**GOOD, 4: 7}), "unknown-key"),
        (forged(GOOD, unprotected={4: b"x"}), "malformed"),
        (forged(GOOD, payload=b"[]"), "malformed"),
        (forged(GOOD, payload=b'{"a":1,"a":2}'), "malformed"),
        (forged(GOOD, tag=98), "malformed"),
        (forged([1]), "malformed"),  # type: ignore[arg-type]
        (cbor2.dumps(cbor2.CBORTag(18, [b"", {}, PAYLOAD])), "malformed"),
        (cbor2.dumps(cbor2.CBORTag(18, [b"", {}, PAYLOAD, "text"])), "malformed"),
        (cbor2.dumps([1]), "malformed"),
        (MESSAGE + b"\x00", "malformed"),
        (MESSAGE[:-1], "malformed"),
        (b"", "malformed"),
        (b"\xd2\x9f" + MESSAGE[2:] + b"\xff", "malformed"),
        (b"\x81" * 100_000, "malformed"),
        (b"x" * 200_000, "malformed"),
    ],
)  # fmt: skip
def test_hostile_messages(message: bytes, reason: str) -> None:
    """T-CO: other algorithms, headers, encodings, trailing octets, nesting bombs; signed right where possible."""
    with pytest.raises(COSEError) as caught:
        cose.verify1(message, KEYS)
    assert caught.value.reason == reason


@given(st.integers(0, len(MESSAGE) * 8 - 1))
def test_no_flipped_bit_passes(bit: int) -> None:
    """Anywhere in the message."""
    changed = bytearray(MESSAGE)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(COSEError):
        cose.verify1(bytes(changed), KEYS)


def test_both_envelopes_travel_as_text() -> None:
    """``cose:`` and base64url, or the JWS itself; the one is never taken for the other."""
    record = compact(protected_header(KEY), PAYLOAD, KEY).encode()
    for form, signed in (("cose", MESSAGE), ("jws", record)):
        text = envelope.to_text(form, signed)
        assert envelope.from_text(form, text) == signed
        assert envelope.verify(form, signed, KEYS) == json.loads(PAYLOAD) == envelope.parse_unverified(form, signed)
        with pytest.raises(JWSError):
            envelope.verify("jws" if form == "cose" else "cose", signed, KEYS)
    for form, text in (("cose", record.decode()), ("cose", "cose:!"), ("jws", "é"), ("xml", "x")):
        with pytest.raises(JWSError):
            envelope.from_text(form, text)
    with pytest.raises(JWSError):
        envelope.verify("xml", MESSAGE, KEYS)
