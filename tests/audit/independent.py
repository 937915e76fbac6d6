"""Verifies exports with the standard library and `cryptography` alone; raises at the first thing that is wrong."""

import base64
import json
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as Key


def b64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4))


def follow(keys: dict[str, bytes], ends: dict[str, str], said: dict[str, str]) -> None:
    """Trust the key that follows a trusted one, by a statement of both; what the old one signs later is void."""
    names = ("server_id", "old_kid", "old_key", "new_kid", "new_key", "rotated_at")
    content = {"type": "signing-key-rotated", **{name: said[name] for name in names}}
    octets = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    for which in ("old", "new"):
        Key.from_public_bytes(b64(said[f"{which}_key"])).verify(b64(said[f"{which}_signature"]), octets)
        known = keys.get(said["old_kid"]) if which == "old" else keys.setdefault(said["new_kid"], b64(said["new_key"]))
        assert known == b64(said[f"{which}_key"]), "the key is not the one that is trusted under its name"
    ends[said["old_kid"]] = max(ends.get(said["old_kid"], ""), said["rotated_at"][:19])


def bstr(octets: bytes, at: int) -> tuple[bytes, int]:
    """A CBOR byte string, and where it ends."""
    wide = {0x58: 1, 0x59: 2}.get(octets[at], 0)
    size = int.from_bytes(octets[at + 1 : at + 1 + wide], "big") if wide else octets[at] - 0x40
    return octets[at + 1 + wide :][:size], at + 1 + wide + size


def signed(form: str, text: str) -> tuple[bytes, bytes, bytes, str, Any]:
    """What is hashed, what is signed, the signature, the key's name, the payload: of a JWS, or of a COSE_Sign1."""
    if form == "jws":
        first, second, third = text.split(".")
        return text.encode(), f"{first}.{second}".encode(), b64(third), json.loads(b64(first))["kid"], b64(second)
    octets = b64(text.removeprefix("cose:"))
    protected, at = bstr(octets, 2)
    payload, end = bstr(octets, at + 1)
    assert (octets[:2], octets[at], protected[:4]) == (b"\xd2\x84", 0xA0, b"\xa3\x01\x27\x04")
    covered = b"\x84\x6aSignature1" + octets[2:at] + b"\x40" + octets[at + 1 : end]
    return octets, covered, bstr(octets, end)[0], bstr(protected, 4)[0].decode(), payload


def root(index: int, size: int, leaf: bytes, proof: list[bytes]) -> bytes:
    """Where an inclusion proof leads to: RFC 9162 section 2.1.3."""
    assert 0 <= index < size and (size > 1 or not proof)
    if size == 1:
        return leaf
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        return sha256(b"\x01" + root(index, split, leaf, proof[:-1]) + proof[-1]).digest()
    return sha256(b"\x01" + proof[-1] + root(index - split, size - split, leaf, proof[:-1])).digest()


def verify(lines: list[bytes], raw_keys: dict[str, bytes], proven: set[str] | None = None) -> list[dict[str, Any]]:
    """Every payload. `raw_keys` can be the host's first alone; `proven` takes what a checkpoint shows to be logged."""
    (first, *entries, last), keys, ends, heads, payloads = map(json.loads, lines), dict(raw_keys), {}, {}, []
    for said in first.get("links", []):
        follow(keys, ends, said)
    if note := first.get("checkpoint"):
        (text, _, marks), known = note.partition("\n\n"), {}
        origin, size, top = text.split("\n")
        for raw in keys.values():
            known[sha256(f"{origin}\n\x01".encode() + raw).digest()[:4]] = Key.from_public_bytes(raw)
        made = [mark for mark in map(b64, [line.split(" ")[2] for line in marks.splitlines()]) if mark[:4] in known]
        assert made and not any(known[mark[:4]].verify(mark[4:], f"{text}\n".encode()) for mark in made)
    for entry in entries:
        octets, covered, signature, kid, payload = signed(entry["format"], entry["signed"])
        Key.from_public_bytes(keys[kid]).verify(signature, covered)
        fields = json.loads(payload)
        assert sha256(octets).hexdigest() == entry["audit_id"] and fields["agent_id"] == entry["chain"]
        assert not first["whole"] or fields["previous_audit_id"] == heads.get(entry["chain"], "0" * 64)
        assert fields["issued_at"][:19] <= ends.get(kid, "9999"), "signed after the end of the key's use"
        if (fields.get("event_type"), entry["chain"]) == ("signing-key-rotated", ""):
            follow(keys, ends, fields)
        if "proof" in entry:
            leaf = sha256(b"\x00" + sha256(octets).digest()).digest()
            assert root(entry["index"], int(size), leaf, [*map(b64, entry["proof"])]) == b64(top)
            (set() if proven is None else proven).add(entry["audit_id"])
        heads[entry["chain"]] = entry["audit_id"]
        payloads.append(fields)
    digest = sha256(b"".join(lines[:-1])).hexdigest()
    assert last == {"end": first["format"], "records": len(entries), "heads": heads, "sha256": digest}
    return payloads


def members(lines: list[bytes], raw_keys: dict[str, bytes]) -> set[str]:
    """Audit-IDs of the records that are proven to be in the host's log."""
    verify(lines, raw_keys, proven := set())
    return proven
