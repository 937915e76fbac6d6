"""Payload octets, times and signatures of one record."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agtphost.audit.chain import RecordSigner, Seconds
from agtphost.audit.record_text import encode_payload
from agtphost.identity.canonical import CanonicalError
from agtphost.identity.jws import verify
from tests.audit.drafting import KEY, KEYS, payload

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e20, 1e20) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text() | st.integers(0, 999)), VALUES)
def test_the_payload_is_rfc_8785(members: dict[str, Any], extra: Any) -> None:
    """Whatever a record holds, its octets are those of an independent RFC 8785 encoder (P20)."""
    members["extra"] = extra
    assert encode_payload(members) == rfc8785.dumps(members)


def test_the_plain_encoder_alone_would_not_do() -> None:
    """The control: the fast encoder by itself differs for a fraction and for text beyond ASCII."""
    for members in ({"extra": {"share": 1.0}}, {"reason": "Prüfung"}):
        fast = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
        assert fast != rfc8785.dumps(members) == encode_payload(members)


@pytest.mark.parametrize("bad", [{"reason": "\ud800"}, {"extra": float("nan")}, {"extra": 2**60}])
def test_what_has_no_canonical_form_is_refused(bad: dict[str, Any]) -> None:
    """A lone surrogate, NaN or an integer beyond 2**53 is never signed."""
    with pytest.raises(CanonicalError):
        encode_payload(bad)


def test_times_are_rfc_3339_in_utc_to_the_millisecond() -> None:
    """The text is right within a second, across one, and when the clock steps back (T-TM)."""
    seconds = Seconds()
    texts = [seconds.text(ms) for ms in (1_800_000_000_000, 1_800_000_000_042, 1_800_000_001_007, 999)]
    assert texts == [
        "2027-01-15T08:00:00.000Z",
        "2027-01-15T08:00:00.042Z",
        "2027-01-15T08:00:01.007Z",
        "1970-01-01T00:00:00.999Z",
    ]


def test_a_signed_record_verifies_and_is_named_by_its_hash() -> None:
    """Audit-ID is the SHA-256 of the JWS text (AGTP-046), and the JWS verifies with the public key."""
    members = payload()
    signature = RecordSigner(KEY).sign(members)
    assert signature.audit_id_text == sha256(signature.jws.encode()).hexdigest() == signature.audit_id.hex()
    assert verify(signature.jws, KEYS) == members


def test_without_a_key_the_record_is_visibly_unsigned() -> None:
    """``alg: none`` and an empty third part; the Audit-ID covers the trailing dot (AGTP-304)."""
    signature = RecordSigner(None).sign(payload())
    assert signature.jws.endswith(".")
    assert signature.audit_id_text == sha256(signature.jws.encode()).hexdigest()
    verify(signature.jws, {}, allow_unsigned=True)
