"""Detached signatures: they cover every octet of one document, and nothing else passes for one (T-JW)."""

from __future__ import annotations

import pytest

from agtphost.identity import detached, jws
from agtphost.identity.encoding import encode
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import SigningKey
from tests.identity.samples import key_of
from tests.rows import each_row

KEY, OTHER = key_of("detached key other 2"), key_of("detached key other")
KEYS = {KEY.kid: KEY.public}
BODY = b'{"agent_id": "x"}'
GOOD = detached.sign(BODY, KEY)


def test_a_signature_verifies() -> None:
    """AGTP-116: over JSON, and over octets that are none."""
    assert detached.verify(GOOD, BODY, KEYS) == KEY.kid
    assert detached.verify(detached.sign(b"\xff\x00", KEY), b"\xff\x00", KEYS) == KEY.kid


def attached(typ: str, signer: SigningKey | None = KEY) -> str:
    """A JWS of another kind, its payload taken out."""
    first, _, last = jws.compact(jws.protected_header(signer, typ), BODY, signer).split(".")
    return f"{first}..{last}"


@each_row(
    "signature",
    [
        "", ".", "..", "...", GOOD + ".", GOOD.replace("..", "."), GOOD[:-1], GOOD + "A", "x" + GOOD,
        GOOD.replace("..", f".{encode(BODY).decode()}."),
        attached("JWT"), attached(jws.MANIFEST_TYPE), attached(detached.TYPE, None), attached(detached.TYPE, OTHER),
    ],
)  # fmt: skip
def test_everything_else_is_refused(signature: str) -> None:
    """Malformed ones, records and manifests, unsigned ones and those of other keys."""
    with pytest.raises(JWSError):
        detached.verify(signature, BODY, KEYS)


def test_every_changed_octet_is_noticed() -> None:
    """One bit of the body, anywhere."""
    for at in range(len(BODY)):
        with pytest.raises(JWSError):
            detached.verify(GOOD, BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :], KEYS)
