"""
A verifier of exports that shares no line with the program: the standard library and `cryptography` alone.

What an auditor could write in an afternoon from the description of the format.
COSE messages are taken apart by hand, as their one possible encoding allows.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ZERO = "0" * 64


def b64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def cbor(octets: bytes, at: int) -> tuple[Any, int]:
    """One item: text, octets, small maps, arrays, integers and tags."""
    major, low = octets[at] >> 5, octets[at] & 31
    at += 1
    if low >= 24:
        size = 1 << low - 24
        low, at = int.from_bytes(octets[at : at + size], "big"), at + size
    if major in (2, 3):
        return octets[at : at + low], at + low
    if major in (0, 1):
        return (low if major == 0 else -1 - low), at
    items = []
    for _ in range({4: low, 5: 2 * low, 6: 1}[major]):
        item, at = cbor(octets, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if major == 5 else items), at


def head(octets: bytes) -> bytes:
    """A byte string's encoding."""
    size = len(octets)
    if size < 24:
        return bytes([0x40 + size]) + octets
    prefix = bytes([0x58, size]) if size < 256 else b"\x59" + size.to_bytes(2, "big")
    return prefix + octets


def signed(form: str, text: str) -> tuple[bytes, bytes, bytes, str, bytes]:
    """What is hashed, what is signed, the signature, the key's name, the payload."""
    if form == "jws":
        first, second, third = text.split(".")
        header = json.loads(b64(first))
        assert header["alg"] == "EdDSA"
        return text.encode(), f"{first}.{second}".encode(), b64(third), header["kid"], b64(second)
    octets = b64(text.removeprefix("cose:"))
    ((protected, _, payload, signature),), end = cbor(octets, 0)
    assert end == len(octets)
    header, _ = cbor(protected, 0)
    covered = b"\x84\x6aSignature1" + head(protected) + b"\x40" + head(payload)
    return octets, covered, signature, header[4].decode(), payload


def verify(lines: Iterable[bytes], raw_keys: dict[str, bytes]) -> list[dict[str, Any]]:
    """Every payload of the export, or an exception at the first thing that is wrong."""
    *kept, end = lines
    first, *rest = [json.loads(line) for line in kept]
    last = json.loads(end)
    keys = {kid: Ed25519PublicKey.from_public_bytes(raw) for kid, raw in raw_keys.items()}
    heads: dict[str, str] = {}
    payloads = []
    for entry in rest:
        octets, covered, signature, kid, payload = signed(entry["format"], entry["signed"])
        assert hashlib.sha256(octets).hexdigest() == entry["audit_id"]
        keys[kid].verify(signature, covered)
        fields = json.loads(payload)
        assert fields["agent_id"] == entry["chain"]
        if first["whole"]:
            assert fields["previous_audit_id"] == heads.get(entry["chain"], ZERO)
        heads[entry["chain"]] = entry["audit_id"]
        payloads.append(fields)
    assert last["end"] == first["format"] and last["records"] == len(rest) and last["heads"] == heads
    assert last["sha256"] == hashlib.sha256(b"".join(kept)).hexdigest()
    return payloads


def node(left: bytes, right: bytes) -> bytes:
    """RFC 9162 section 2.1.1."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(index: int, size: int, digest: bytes, proof: list[bytes]) -> bytes:
    """Where an inclusion proof leads to, by the recursion of RFC 9162 section 2.1.3.1."""
    if size == 1:
        assert not proof
        return digest
    split = 1 << (size - 1).bit_length() - 1
    *inner, sibling = proof
    if index < split:
        return node(root(index, split, digest, inner), sibling)
    return node(sibling, root(index - split, size - split, digest, inner))


def members(lines: Iterable[bytes], raw_keys: dict[str, bytes]) -> set[str]:
    """Audit-IDs of the records that the export proves to be in the log, by a checkpoint that one of the keys signed."""
    first, *rest = [json.loads(line) for line in lines]
    text, _, signatures = first["checkpoint"].partition("\n\n")
    origin, size, encoded = text.split("\n")
    marked = {hashlib.sha256(f"{origin}\n\x01".encode() + raw).digest()[:4]: raw for raw in raw_keys.values()}
    octets = [base64.b64decode(line.split(" ")[2]) for line in signatures.splitlines()]
    known = [(marked[each[:4]], each[4:]) for each in octets if each[:4] in marked]
    assert known
    for raw, signature in known:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, f"{text}\n".encode())
    proven = set()
    for entry in rest[:-1]:
        if "proof" in entry:
            signed_octets = signed(entry["format"], entry["signed"])[0]
            leaf = hashlib.sha256(b"\x00" + hashlib.sha256(signed_octets).digest()).digest()
            path = [base64.b64decode(text) for text in entry["proof"]]
            assert 0 <= entry["index"] < int(size)
            assert root(entry["index"], int(size), leaf, path) == base64.b64decode(encoded)
            proven.add(entry["audit_id"])
    return proven
