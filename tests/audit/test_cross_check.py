"""
P20: what this program signs and writes canonically, libraries of others read and write alike, over many documents.

The ordinary run takes two thousand documents, the long one twenty thousand (``AGTPHOST_DOCUMENTS=20000``).
"""

from __future__ import annotations

import json
import os
import random
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from joserfc import jws as joserfc_jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from agtphost.audit.chain import RecordSigner
from agtphost.audit.record_text import encode_payload
from agtphost.identity import jws
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext
from tests.audit.drafting import KEY, KEYS, payload

DOCUMENTS = int(os.environ.get("AGTPHOST_DOCUMENTS", "2000"))
ALPHABET = "ab\"\\/\b\n\t\x01\x7f\x80\u00e9\u2028\u2029\ud7ff\ue000\ufb33\U00010000\U0010ffff<>&' "
PUBLIC = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": encode(KEY.public.raw).decode()})
REGISTRY = joserfc_jws.JWSRegistry(algorithms=["EdDSA"], strict_check_header=False)


def text(chance: random.Random) -> str:
    return "".join(chance.choice(ALPHABET) for _ in range(chance.randrange(12)))


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 7:
        return {text(chance): value(chance, depth + 1) for _ in range(chance.randrange(4))}
    simple = [None, chance.random() < 0.5, chance.randrange(-(2**53) + 1, 2**53), text(chance), text(chance), 0]
    return simple[kind]


def documents(seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for _ in range(DOCUMENTS):
        yield {**payload(reason=text(chance)), "extension": value(chance), text(chance): text(chance)}


def test_the_canonical_form_is_that_of_rfc8785() -> None:
    """Ours, the quick one of records, and the library's: equal for every document, and read back as it was."""
    assert DOCUMENTS >= 2_000
    for document in documents(1):
        theirs = rfc8785.dumps(document)
        assert canonical(document) == encode_payload(document) == theirs
        assert jsontext.decode(theirs) == json.loads(theirs) == document


def test_the_comparison_can_fail() -> None:
    """The control: sorting by code point, or escaping, gives other octets for some of the very same documents."""
    differ = {"order": 0, "escapes": 0}
    for document in documents(1):
        theirs = rfc8785.dumps(document)
        differ["order"] += (
            json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() != theirs
        )
        differ["escapes"] += json.dumps(document, sort_keys=True, separators=(",", ":")).encode() != theirs
    assert all(count > 2 for count in differ.values()), differ
    assert unicodedata.name("\ufb33") and "\ufb33" > "\ud83d", "U+FB33 sorts after the surrogates of U+10000"


def test_records_are_read_alike_by_joserfc_and_by_us() -> None:
    """Each way: what we sign joserfc verifies, what it signs we verify; a flipped bit is refused by both."""
    chance, signer = random.Random(2), RecordSigner(KEY)
    theirs = OKPKey.import_key(
        {"kty": "OKP", "crv": "Ed25519", "x": encode(KEY.public.raw).decode(), "d": encode(_secret(KEY)).decode()}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, document in enumerate(documents(2)):
            ours = signer.sign(dict(document)).jws
            assert json.loads(joserfc_jws.deserialize_compact(ours, PUBLIC, registry=REGISTRY).payload) == document
            assert jws.verify(ours, KEYS) == document
            if number % 10 == 0:
                header = {"alg": "EdDSA", "kid": KEY.kid, "typ": "JWT"}
                made = joserfc_jws.serialize_compact(header, rfc8785.dumps(document), theirs, registry=REGISTRY)
                assert jws.verify(made, KEYS) == document
                hostile = bytearray(ours.encode())
                hostile[chance.randrange(len(hostile))] ^= 1 << chance.randrange(7)
                with pytest.raises((JoseError, ValueError, UnicodeDecodeError)):
                    _read_by_theirs(hostile.decode("latin-1"), ours)
                with pytest.raises(jws.JWSError):
                    jws.verify(hostile.decode("latin-1"), KEYS)


def _secret(key: SigningKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key._key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())


def _read_by_theirs(hostile: str, good: str) -> None:
    """Verified by joserfc; a text that decodes to the very same octets, as its last bits may, counts as refused."""
    found = joserfc_jws.deserialize_compact(hostile, PUBLIC, registry=REGISTRY)
    if found.payload == joserfc_jws.deserialize_compact(good, PUBLIC, registry=REGISTRY).payload:
        raise ValueError("the same signed octets in another spelling")
