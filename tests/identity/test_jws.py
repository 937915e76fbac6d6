"""JWS Compact: 60 hostile texts refused, records readable by another implementation (T-JW)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws as other
from joserfc.jwk import OKPKey

from agtphost.identity import jws
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext
from tests.identity.samples import key_of
from tests.rows import each_row

KEY = key_of("jws key")
STRANGER = key_of("jws stranger")
KEYS = {KEY.kid: KEY.public}
PROTECTED = jws.protected_header(KEY)
PAYLOAD = b'{"audit_record_version":"1","status":200}'
GOOD = jws.compact(PROTECTED, PAYLOAD, KEY)
UNSIGNED = jws.compact(jws.protected_header(None), PAYLOAD, None)


def b64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def signed(header: Any, payload: bytes = PAYLOAD, key: SigningKey = KEY) -> str:
    """A text whose signature is right, whatever its header says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    signing_input = f"{b64(text)}.{b64(payload)}"
    return f"{signing_input}.{b64(key.sign(signing_input.encode()))}"


def header(**changes: Any) -> dict[str, Any]:
    members = {"alg": "EdDSA", "kid": KEY.kid, "typ": "JWT", **changes}
    return {name: value for name, value in members.items() if value is not ...}


def confused() -> str:
    """HS256 keyed with the public key: the classic confusion of algorithms."""
    signing_input = f"{b64(json.dumps(header(alg='HS256')).encode())}.{b64(PAYLOAD)}"
    mac = hmac.new(KEY.public.raw, signing_input.encode(), hashlib.sha256).digest()
    return f"{signing_input}.{b64(mac)}"


def malleable() -> str:
    """The same signature with S + L in place of S."""
    order = 2**252 + 27742317777372353535851937790883648493
    text, _, part = GOOD.rpartition(".")
    raw = base64.urlsafe_b64decode(part + "==")
    scalar = int.from_bytes(raw[32:], "little") + order
    return f"{text}.{b64(raw[:32] + scalar.to_bytes(32, 'little'))}"


def stray_bits(part: int) -> str:
    """The last character of a part with bits that decode to nothing."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    parts = signed(header(), b'{"a":12}' if part == 1 else PAYLOAD).split(".")
    while len(parts[0]) % 4 == 0 and part == 0:
        parts = signed(json.dumps(header()).encode() + b" " * (len(parts[0]) % 3 + 1)).split(".")
    last = alphabet.index(parts[part][-1])
    parts[part] = parts[part][:-1] + alphabet[last | 1]
    return ".".join(parts)


PARTS = GOOD.split(".")

RFC_9864 = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

HOSTILE: dict[str, str | Callable[[], str]] = {
    "empty": "",
    "one dot": ".",
    "two dots": "..",
    "three dots": "...",
    "no signature part": ".".join(PARTS[:2]),
    "empty signature": ".".join(PARTS[:2]) + ".",
    "empty payload": f"{PARTS[0]}..{PARTS[2]}",
    "empty header": f".{PARTS[1]}.{PARTS[2]}",
    "extra part": GOOD + ".AAAA",
    "trailing dot": GOOD + ".",
    "leading dot": "." + GOOD,
    "trailing line feed": GOOD + "\n",
    "trailing space": GOOD + " ",
    "leading space": " " + GOOD,
    "inner line feed": GOOD[:40] + "\n" + GOOD[40:],
    "padded header": f"{PARTS[0]}=.{PARTS[1]}.{PARTS[2]}",
    "padded payload": f"{PARTS[0]}.{PARTS[1]}=.{PARTS[2]}",
    "padded signature": f"{PARTS[0]}.{PARTS[1]}.{PARTS[2]}==",
    "stray bits in the header": lambda: stray_bits(0),
    "stray bits in the payload": lambda: stray_bits(1),
    "stray bits in the signature": lambda: stray_bits(2),
    "standard alphabet": f"{PARTS[0]}.{PARTS[1]}.{'+' + PARTS[2][1:]}",
    "not ASCII": GOOD[:-1] + "é",
    "NUL": GOOD[:-1] + "\0",
    "length of 1 modulo 4": f"{PARTS[0]}.{PARTS[1]}.{PARTS[2][:-1]}",
    "longer than any header line": "A" * (jws.MAX_LENGTH + 1),
    "a thousand dots": "." * 1000,
    "signature of another key": lambda: signed(header(), key=STRANGER),
    "another key's kid": lambda: signed(header(kid=STRANGER.kid), key=STRANGER),
    "kid of a known key, signed by a stranger": lambda: signed(header(kid=KEY.kid), key=STRANGER),
    "kid in upper case": lambda: signed(header(kid=KEY.kid.upper())),
    "kid with a path": lambda: signed(header(kid="../../../../dev/null")),
    "kid with a URL": lambda: signed(header(kid="https://attacker.example/key")),
    "kid empty": lambda: signed(header(kid="")),
    "kid null": lambda: signed(header(kid=None)),
    "kid a number": lambda: signed(header(kid=1)),
    "kid an array": lambda: signed(header(kid=[KEY.kid])),
    "kid an object": lambda: signed(header(kid={})),
    "kid missing": lambda: signed(header(kid=...)),
    "alg none with a signature": lambda: signed(header(alg="none")),
    "alg none without kid, with a signature": lambda: signed(header(alg="none", kid=...)),
    "alg None": lambda: signed(header(alg="None")),
    "alg NONE, unsigned": b64(b'{"alg":"NONE","typ":"JWT"}') + f".{PARTS[1]}.",
    "alg none, unsigned": UNSIGNED,
    "alg HS256 with the public key": confused,
    "alg ES256": lambda: signed(header(alg="ES256")),
    "alg Ed448": lambda: signed(header(alg="Ed448")),
    "alg in lower case": lambda: signed(header(alg="eddsa")),
    "alg missing": lambda: signed(header(alg=...)),
    "alg an array": lambda: signed(header(alg=["EdDSA"])),
    "alg twice": lambda: signed(f'{{"alg":"none","alg":"EdDSA","kid":"{KEY.kid}","typ":"JWT"}}'.encode()),
    "jwk": lambda: signed(header(jwk={"kty": "OKP", "crv": "Ed25519", "x": STRANGER.public.text}), key=STRANGER),
    "jku": lambda: signed(header(jku="https://attacker.example/keys")),
    "x5u": lambda: signed(header(x5u="https://attacker.example/chain")),
    "x5c": lambda: signed(header(x5c=["AAAA"])),
    "crit": lambda: signed(header(crit=["exp"])),
    "b64 false": lambda: signed(header(b64=False, crit=["b64"])),
    "zip": lambda: signed(header(zip="DEF")),
    "typ missing": lambda: signed(header(typ=...)),
    "typ of another document": lambda: signed(header(typ=jws.MANIFEST_TYPE)),
    "typ a number": lambda: signed(header(typ=1)),
    "header an array": lambda: signed([]),
    "header a string": lambda: signed("EdDSA"),
    "header not JSON": lambda: signed(b"alg=EdDSA"),
    "header with a byte order mark": lambda: signed(b"\xef\xbb\xbf" + json.dumps(header()).encode()),
    "payload an array": lambda: signed(header(), b"[]"),
    "payload a number": lambda: signed(header(), b"1"),
    "payload null": lambda: signed(header(), b"null"),
    "payload not JSON": lambda: signed(header(), b"{"),
    "payload not UTF-8": lambda: signed(header(), b'{"a":"\xff"}'),
    "payload with a name twice": lambda: signed(header(), b'{"status":200,"status":500}'),
    "payload with NaN": lambda: signed(header(), b'{"a":NaN}'),
    "payload nested 33 deep": lambda: signed(header(), b'{"a":' + b"[" * 32 + b"]" * 32 + b"}"),
    "payload with a lone surrogate": lambda: signed(header(), b'{"a":"\\ud800"}'),
    "malleable signature": malleable,
    "lifecycle line prefix": "jws:" + GOOD,
}


@each_row("name", HOSTILE)
def test_hostile_texts_are_refused(name: str) -> None:
    """T-JW-1..60: nothing but a record signed by a known key passes, and nothing but JWSError comes out."""
    make = HOSTILE[name]
    text = make if isinstance(make, str) else make()
    assert text != GOOD
    with pytest.raises(JWSError):
        jws.verify(text, KEYS)


def test_there_are_sixty_of_them() -> None:
    """The count that T-JW-1 to 60 ask for, and the control: the same builder makes texts that pass."""
    assert len(HOSTILE) >= 60
    assert jws.verify(signed(header()), KEYS) == jws.verify(GOOD, KEYS) == json.loads(PAYLOAD)


def test_every_character_counts() -> None:
    """Changing any one character of a record makes it fail."""
    for place, character in enumerate(GOOD):
        other_character = "A" if character != "A" else "B"
        with pytest.raises(JWSError):
            jws.verify(GOOD[:place] + other_character + GOOD[place + 1 :], KEYS)


def test_unsigned_records_need_consent() -> None:
    """alg none passes where asked for, with an empty signature and no kid (AGTP-IDENTIFIERS section 8.3.1)."""
    assert UNSIGNED.endswith(".")
    assert jws.verify(UNSIGNED, {}, allow_unsigned=True) == json.loads(PAYLOAD)
    with pytest.raises(JWSError) as caught:
        jws.verify(UNSIGNED, KEYS)
    assert caught.value.reason == "unsigned"
    for text in (UNSIGNED + "AAAA", signed(header(alg="none", kid=...)), signed(header(alg="none"))):
        with pytest.raises(JWSError):
            jws.verify(text, KEYS, allow_unsigned=True)
    with pytest.raises(JWSError):
        jws.verify(GOOD[: GOOD.rindex(".") + 1], KEYS, allow_unsigned=True)


@RFC_9864
def test_another_implementation_reads_our_records() -> None:
    """joserfc verifies a record with the key as a JWK (companion section 1)."""
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": KEY.public.text})
    read = other.deserialize_compact(GOOD, key, algorithms=["EdDSA"])
    assert read.payload == PAYLOAD
    assert read.headers() == {"alg": "EdDSA", "kid": KEY.kid, "typ": "JWT"}


@RFC_9864
def test_we_read_another_implementation() -> None:
    """A record that joserfc signed verifies here."""
    key = OKPKey.import_key(KEY.pem)
    text = other.serialize_compact(header(), PAYLOAD, key, algorithms=["EdDSA"])
    assert jws.verify(text, KEYS) == json.loads(PAYLOAD)


def test_the_header_is_canonical() -> None:
    """Both protected headers are canonical JSON (companion section 5.1)."""
    assert base64.urlsafe_b64decode(PROTECTED + b"==") == (f'{{"alg":"EdDSA","kid":"{KEY.kid}","typ":"JWT"}}'.encode())
    assert base64.urlsafe_b64decode(jws.protected_header(None) + b"==") == b'{"alg":"none","typ":"JWT"}'


def test_a_manifest_signature_is_no_record() -> None:
    """The typ keeps one kind of document from passing as another."""
    text = jws.compact(jws.protected_header(KEY, jws.MANIFEST_TYPE), PAYLOAD, KEY)
    assert jws.verify(text, KEYS, typ=jws.MANIFEST_TYPE) == json.loads(PAYLOAD)
    with pytest.raises(JWSError):
        jws.verify(text, KEYS)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20) | st.integers(0, 999), max_size=8))
def test_what_is_signed_is_what_is_read(payload: dict[str, Any]) -> None:
    """Any payload comes back as it went in."""
    try:
        octets = jsontext.encode(payload)
    except UnicodeEncodeError:
        return
    text = jws.compact(PROTECTED, octets, KEY)
    assert jws.verify(text, KEYS) == payload
    assert jws.parse_unverified(text) == jws.parse_unverified(text.encode()) == payload


@given(st.text(max_size=200) | st.text("ABCab01._-=", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever arrives, the answer is JWSError."""
    with pytest.raises(JWSError):
        jws.verify(text, KEYS)
    with pytest.raises(JWSError):
        jws.parse_unverified(b"\xff" + text.encode("utf-8", "surrogatepass"))
