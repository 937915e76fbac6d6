"""
Signed checkpoints of the tree over all records: the C2SP tlog-checkpoint and signed-note formats.

A checkpoint commits the host to every record so far in three lines: whose tree
it is, its size, its root. Any tool for transparency logs reads and verifies it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256

from agtphost.identity.keys import SigningKey, VerifyingKey

_ED25519 = b"\x01"
"""The signature type of C2SP signed-note section "Signatures"."""

_STATE = b"agtphost state 1\n"
"""In front of what a state line signs, so that its signature is good for nothing else."""

_STATE_LINE, _COSIGNATURE = 4 + 64 + 64, 4 + 8 + 64
"""Octets of a signed state line, and of a witness's line (C2SP tlog-cosignature)."""

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_SIGNATURE = re.compile(r"\u2014 (?P<name>[^\s+]+) (?P<value>[A-Za-z0-9+/]+={0,2})")

MOST_OCTETS = 16_384
"""A longer note is not read."""


class CheckpointError(ValueError):
    """A note is not a checkpoint, or not signed by that key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint."""

    origin: str
    """Whose tree it is: the host's ``server_id``."""

    size: int
    """Number of entries."""

    root: bytes
    note: str
    """The signed note as issued."""


def key_name(origin: str) -> str:
    """Return the name of a host's key in its notes, without characters that the format forbids."""
    return re.sub(r"[\s+]", "-", origin) or "agtphost"


def key_hash(name: str, key: VerifyingKey) -> bytes:
    """Return the four octets that distinguish a key from others of the same name."""
    return sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


def verifier_key(origin: str, key: VerifyingKey) -> str:
    """Return the key in the form that transparency log tools read: ``name+hash+key``."""
    name = key_name(origin)
    return f"{name}+{key_hash(name, key).hex()}+{base64.b64encode(_ED25519 + key.raw).decode()}"


def _state_hash(name: str, key: VerifyingKey | None) -> bytes:
    """Return the four octets of a state line, a signature type of our own (C2SP signed-note, type 0xff)."""
    raw = b"" if key is None else key.raw
    return sha256(name.encode() + b"\n\xffagtphost state 1\n" + raw).digest()[:4]


def state_of(found: Checkpoint, keys: Iterable[VerifyingKey]) -> tuple[bytes, bytes] | None:
    """
    Return the digests of the tables of state, and of their log of changes, as they were when a checkpoint was issued.

    They are in a separate line among the signatures, which covers them and the text: that is the only place in a
    checkpoint that every witness ignores. Old checkpoints have no such line.

    :param keys: those that may have signed it; none: the line is read without checking its signature.
    :return: None where the line is missing, or none of the keys signed it.
    """
    text, _, lines = found.note.partition("\n\n")
    known = tuple(keys)
    for line in lines.splitlines():
        match = _SIGNATURE.fullmatch(line)
        if match is None or match["name"] != found.origin:
            continue
        try:
            octets = base64.b64decode(match["value"], validate=True)
        except binascii.Error:
            continue
        said, proof = octets[4:68], octets[68:]
        if len(said) != 64 or len(proof) not in (0, 64):
            continue
        covered = _STATE + said + f"{text}\n".encode()
        if known:
            sound = any(octets[:4] == _state_hash(found.origin, key) and key.verify(proof, covered) for key in known)
        else:
            # The host's own signature is as long as a line without one.
            sound = bool(proof) or octets[:4] == _state_hash(found.origin, None)
        if sound:
            return said[:32], said[32:]
    return None


def find_unsigned_line(found: Checkpoint, keys: Collection[VerifyingKey]) -> str:
    """
    Return a line of a note that has the host's name or the form of a state line, and that no key of the host signed.

    Lines of witnesses are passed over: their keys are not known here.

    :param keys: those of the host.
    :return: empty where there is no such line.
    """
    text, _, lines = found.note.partition("\n\n")
    signed = f"{text}\n".encode()
    for line in lines.splitlines():
        match = _SIGNATURE.fullmatch(line)
        try:
            octets = b"" if match is None else base64.b64decode(match["value"], validate=True)
        except binascii.Error:
            octets = b""
        states = len(octets) == _STATE_LINE
        own = match is not None and match["name"] == found.origin and len(octets) != _COSIGNATURE
        if not own and not states:
            continue
        said, proof = (octets[4:68], octets[68:]) if states else (b"", octets[4:])
        covered = _STATE + said + signed if states else signed
        if not any(
            octets[:4] == (_state_hash if states else key_hash)(found.origin, key) and key.verify(proof, covered)
            for key in keys
        ):
            return line
    return ""


def issue(
    origin: str, size: int, root: bytes, key: SigningKey | None, state: tuple[bytes, bytes] | None = None
) -> Checkpoint:
    """
    Make a checkpoint.

    :param key: None leaves it without a signature, as the records of such a host are.
    :param state: digests of the tables of state and of their log of changes, 32 octets each: see :func:`state_of`.
    """
    name = key_name(origin)
    text = f"{name}\n{size}\n{base64.b64encode(root).decode()}\n"
    note = f"{text}\n"
    if key is not None:
        signature = key_hash(name, key.public) + key.sign(text.encode())
        note += f"\u2014 {name} {base64.b64encode(signature).decode()}\n"
    if state is not None:
        said = b"".join(state)
        proof = b"" if key is None else key.sign(_STATE + said + text.encode())
        octets = _state_hash(name, None if key is None else key.public) + said + proof
        note += f"\u2014 {name} {base64.b64encode(octets).decode()}\n"
    return Checkpoint(origin=name, size=size, root=root, note=note)


def read(note: str) -> Checkpoint:
    """
    Read a note without checking its signatures.

    :raises CheckpointError: it is not a checkpoint.
    """
    if len(note.encode("utf-8", "surrogatepass")) > MOST_OCTETS:
        raise CheckpointError("the checkpoint is too long")
    text, separator, _ = note.partition("\n\n")
    lines = text.split("\n")
    if not separator or len(lines) < 3 or not lines[0] or _SIZE.fullmatch(lines[1]) is None:
        raise CheckpointError("the text is not a checkpoint: origin, size and root on a line each, then an empty line")
    try:
        root = base64.b64decode(lines[2], validate=True)
    except binascii.Error:
        root = b""
    if len(root) != 32 or base64.b64encode(root).decode() != lines[2]:
        raise CheckpointError("the root is not 32 octets in base64")
    return Checkpoint(origin=lines[0], size=int(lines[1]), root=root, note=note)


def verify(note: str, keys: Iterable[VerifyingKey]) -> Checkpoint:
    """
    Read a checkpoint that one of ``keys`` signed under the note's own origin.

    Signatures of other keys, such as witnesses', are passed over.

    :raises CheckpointError: it is not a checkpoint, or none of the keys signed it.
    """
    return verify_signers(note, keys)[0]


def verify_signers(note: str, keys: Iterable[VerifyingKey]) -> tuple[Checkpoint, tuple[VerifyingKey, ...]]:
    """
    Verify a checkpoint; return it with those of ``keys`` that signed it, at least one.

    :raises CheckpointError: as for :func:`verify`.
    """
    found = read(note)
    text, _, signatures = note.partition("\n\n")
    signed = f"{text}\n".encode()
    known = {key_hash(found.origin, key): key for key in keys}
    signers: dict[bytes, VerifyingKey] = {}
    *lines, rest = signatures.split("\n")
    if rest:
        raise CheckpointError("the last line has no line feed")
    for line in lines:
        match = _SIGNATURE.fullmatch(line)
        if match is None:
            raise CheckpointError("a signature line is malformed")
        try:
            octets = base64.b64decode(match["value"], validate=True)
        except binascii.Error:
            octets = b""
        if base64.b64encode(octets).decode() != match["value"]:
            raise CheckpointError("a signature is not base64 in its one spelling")
        key = known.get(octets[:4]) if match["name"] == found.origin else None
        if key is not None:
            if not key.verify(octets[4:], signed):
                raise CheckpointError("the signature is not that of the checkpoint")
            signers[octets[:4]] = key
    if not signers:
        raise CheckpointError("no known key signed the checkpoint")
    return found, tuple(signers.values())


def signed_by(found: Checkpoint, keys: Iterable[VerifyingKey]) -> str:
    """Return the checkpoint's note with only the signature lines of ``keys``."""
    hashes = {key_hash(found.origin, key) for key in keys}
    text, _, signatures = found.note.partition("\n\n")
    kept = [
        line
        for line in signatures.splitlines()
        if (match := _SIGNATURE.fullmatch(line)) is not None
        and match["name"] == found.origin
        and base64.b64decode(match["value"])[:4] in hashes
    ]
    return "\n".join((f"{text}\n", *kept, ""))
