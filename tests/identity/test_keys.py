"""Ed25519 keys: forms, fingerprints, files."""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.identity import keys
from agtphost.identity.key_history import HostKey, succeed
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey, fastest_signer, is_exposed
from tests.rows import each_row


def pem_of(key: Any) -> bytes:
    """A private key of any kind as PKCS#8 PEM."""
    octets: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return octets


def test_fingerprint_is_the_hash_of_the_raw_key() -> None:
    """AGTP-166: sha256 of the 32 raw octets, 64 lower-case hex; the kid has its first 16."""
    key = SigningKey.generate().public
    raw = base64.urlsafe_b64decode(key.text + "=")
    assert len(raw) == 32
    assert key.fingerprint == hashlib.sha256(raw).hexdigest()
    assert key.kid == f"ed25519-{key.fingerprint[:16]}"


def test_every_form_reads_to_the_same_key(tmp_path: Path) -> None:
    """base64url, padded or not, and PEM are read (companion section 1); equal keys hash alike."""
    key = SigningKey.generate().public
    path = tmp_path / "key.pub"
    key.save(path)
    forms = [key.text, key.text + "=", f" {key.text}\n", key.pem.decode()]
    assert {VerifyingKey.from_text(form) for form in forms} == {key}
    assert VerifyingKey.load(path) == key


def test_signing_key_survives_its_file(tmp_path: Path) -> None:
    """A saved key is for the owner alone (T-KY), reads back the same and is never overwritten."""
    path = tmp_path / "signing.key"
    key = SigningKey.generate()
    old = os.umask(0)
    try:
        key.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not is_exposed(path)
    loaded = SigningKey.load(path)
    assert loaded.public == key.public
    assert key.public.verify(loaded.sign(b"x"), b"x")
    with pytest.raises(FileExistsError):
        SigningKey.generate().save(path)
    assert SigningKey.load(path).public == key.public


def test_exposed_files_are_noticed(tmp_path: Path) -> None:
    """A key file that a group or everybody can read is reported (T-KY)."""
    path = tmp_path / "k"
    path.write_bytes(b"")
    for mode, expected in [(0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o620, True)]:
        path.chmod(mode)
        assert is_exposed(path) is expected


def test_a_signature_is_for_its_octets_and_key_alone() -> None:
    """Another text, another key, one flipped bit, a cut signature: all refused."""
    key = SigningKey.generate()
    signature = key.sign(b"text")
    assert key.public.verify(signature, b"text")
    assert not key.public.verify(signature, b"texu")
    assert not SigningKey.generate().public.verify(signature, b"text")
    assert not key.public.verify(signature[:-1], b"text")
    for place in range(64):
        broken = bytearray(signature)
        broken[place] ^= 1
        assert not key.public.verify(bytes(broken), b"text")


def test_malleable_signatures_are_refused() -> None:
    """S and S + L are one to a lenient verifier; a second signature is a second Audit-ID (T-JW)."""
    order = 2**252 + 27742317777372353535851937790883648493
    key = SigningKey.generate()
    signature = key.sign(b"text")
    scalar = int.from_bytes(signature[32:], "little") + order
    assert not key.public.verify(signature[:32] + scalar.to_bytes(32, "little"), b"text")


def test_points_of_small_order_are_no_keys() -> None:
    """Under such a key anybody signs anything; the library alone accepts that."""
    point = b"\x01" + bytes(31)
    forged = point + bytes(32)
    Ed25519PublicKey.from_public_bytes(point).verify(forged, b"anything")  # The control: it passes.
    for sign_bit in (0, 0x80):
        with pytest.raises(KeyFormatError, match="small order"):
            VerifyingKey(point[:31] + bytes([point[31] | sign_bit]))


@each_row("text", ["", "AAAA", "A" * 44, "%" * 43, "-----BEGIN PUBLIC KEY-----\nAA\n", "é" * 43])
def test_unreadable_public_keys(text: str) -> None:
    """What is no key is refused with a message, not with a foreign exception."""
    with pytest.raises(KeyFormatError):
        VerifyingKey.from_text(text)


def test_other_keys_are_refused_by_name(tmp_path: Path) -> None:
    """RSA, elliptic-curve, private-for-public and garbage files are refused, naming the file."""
    path = tmp_path / "odd.key"
    for octets in (
        pem_of(rsa.generate_private_key(65537, 2048)),
        pem_of(ec.generate_private_key(ec.SECP256R1())),
        b"garbage",
        b"",
        SigningKey.generate().public.pem,
    ):
        path.write_bytes(octets)
        with pytest.raises(KeyFormatError, match=r"odd\.key"):
            SigningKey.load(path)
    private = SigningKey.generate()
    path.write_bytes(private.pem)
    with pytest.raises(KeyFormatError, match="private key") as caught:
        VerifyingKey.load(path)
    assert private.pem.decode().splitlines()[1] not in str(caught.value)
    with pytest.raises(KeyFormatError, match="not an Ed25519"):
        VerifyingKey.from_text(
            ec.generate_private_key(ec.SECP256R1())
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )


def test_keys_do_not_show_themselves() -> None:
    """Neither repr nor str has the secret (T-SE)."""
    key = SigningKey.generate()
    assert key.seed.hex() not in repr(key)
    assert repr(key) == f"<SigningKey {key.kid}>"


def test_the_fastest_signer_signs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With libsodium or without, the signature is the one of RFC 8032."""
    key = SigningKey.generate()
    signer = fastest_signer(key)
    assert (signer.kid, signer.sign(b"x")) == (key.kid, key.sign(b"x"))

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    signer = fastest_signer(key)
    assert (signer.kid, signer.sign(b"x")) == (key.kid, key.sign(b"x"))


@pytest.mark.parametrize("has_libsodium", [True, False])
def test_a_signer_keeps_its_key_when_another_follows_that_of_the_host(
    has_libsodium: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is used in other threads, where header and signature would be of two keys."""
    if not has_libsodium:
        monkeypatch.setitem(sys.modules, "nacl.bindings", None)
    old, new = SigningKey.generate(), SigningKey.generate()
    old.save(tmp_path / "signing.key")
    key = HostKey.of_host(tmp_path / "signing.key", tmp_path)
    signers = fastest_signer(key), key.snapshot()
    key.follow(new, succeed(old, new, server_id="agtp.test", rotated_at="2026-07-01T00:00:00Z"))
    assert (key.kid, key.sign(b"x")) == (new.kid, new.sign(b"x"))
    assert [(each.kid, each.sign(b"x")) for each in signers] == 2 * [(old.kid, old.sign(b"x"))]


def test_the_libsodium_calls_are_made_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """crypto_sign(message, secret) returns the signature before the message."""
    key = SigningKey.generate()
    bindings = SimpleNamespace(
        crypto_sign_seed_keypair=lambda seed: (key.public.raw, seed + key.public.raw),
        crypto_sign=lambda message, secret: key.sign(message) + message if secret[:32] == key.seed else b"",
    )
    monkeypatch.setattr(keys.importlib, "import_module", lambda name: bindings)
    assert key.public.verify(fastest_signer(key).sign(b"x"), b"x")
