"""
Cosignatures of checkpoints: C2SP tlog-cosignature, version 1.

A witness adds a line to the note of a log. Its signature covers the
note's text and the time, and says: at that time this was the newest checkpoint
that I knew of this log, and it continued all that I had seen before.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from agtphost.audit.checkpoint import CheckpointError, key_name
from agtphost.identity.keys import SigningKey, VerifyingKey

_COSIGNATURE = b"\x04"
"""The signature type of C2SP signed-note for timestamped Ed25519 cosignatures."""

_LINE = re.compile(r"\u2014 (?P<name>[^\s+]+) (?P<value>[A-Za-z0-9+/]+={0,2})\n?")
_OCTETS = 4 + 8 + 64
"""Key hash, time, signature."""

MOST_LINES = 16
"""Lines that are kept with one checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosignature:
    """The statement of a witness about a checkpoint."""

    witness: str
    """The name of its key."""

    seconds: int
    """When, since the Unix epoch."""

    line: str
    """The signature line, with its line feed."""


def witness_hash(name: str, key: VerifyingKey) -> bytes:
    """Return the four octets that distinguish a witness's key from others of the same name."""
    return sha256(name.encode() + b"\n" + _COSIGNATURE + key.raw).digest()[:4]


def witness_key(name: str, key: VerifyingKey) -> str:
    """Return the witness's key in the form that transparency log tools read: ``name+hash+key``."""
    return f"{key_name(name)}+{witness_hash(key_name(name), key).hex()}+" + (
        base64.b64encode(_COSIGNATURE + key.raw).decode()
    )


def _covered_octets(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def text_of(note: str) -> str:
    """
    Return the signed part of a note, including its last line feed.

    :raises CheckpointError: it is not a note.
    """
    text, separator, _ = note.partition("\n\n")
    if not separator:
        raise CheckpointError("the text is not a signed note")
    return f"{text}\n"


def cosign(note: str, witness: str, key: SigningKey, seconds: int) -> str:
    """
    Return the signature line that a witness adds to a note.

    :param witness: its ``server_id``.
    :param seconds: the present time, since the Unix epoch.
    :raises CheckpointError: it is not a note.
    """
    name = key_name(witness)
    signature = key.sign(_covered_octets(text_of(note), seconds))
    octets = witness_hash(name, key.public) + seconds.to_bytes(8, "big") + signature
    return f"\u2014 {name} {base64.b64encode(octets).decode()}\n"


def verify(note: str, line: str, keys: Iterable[VerifyingKey]) -> Cosignature:
    """
    Check one cosignature.

    :param keys: the witness's.
    :raises CheckpointError: none of them made that line for that note.
    """
    match = _LINE.fullmatch(line)
    octets = b""
    if match is not None:
        try:
            octets = base64.b64decode(match["value"], validate=True)
        except binascii.Error:
            octets = b""
    if match is None or len(octets) != _OCTETS or base64.b64encode(octets).decode() != match["value"]:
        raise CheckpointError("the line is not a cosignature")
    seconds = int.from_bytes(octets[4:12], "big")
    covered = _covered_octets(text_of(note), seconds)
    for key in keys:
        if octets[:4] == witness_hash(match["name"], key) and key.verify(octets[12:], covered):
            return Cosignature(witness=match["name"], seconds=seconds, line=line.rstrip("\n") + "\n")
    raise CheckpointError("the cosignature is not the witness's")


def find_cosignatures(note: str, keys: Iterable[VerifyingKey]) -> list[Cosignature]:
    """Return the cosignatures of a note that one of ``keys`` made; all other lines are ignored."""
    known = tuple(keys)
    cosignatures = []
    for line in note.partition("\n\n")[2].splitlines():
        try:
            cosignatures.append(verify(note, line, known))
        except CheckpointError:
            continue
    return cosignatures


def with_line(note: str, line: str) -> str:
    """Return the note with one more signature line; unchanged if it has that line, or the maximum."""
    lines = note.partition("\n\n")[2].splitlines()
    wanted = line.rstrip("\n")
    return note if wanted in lines or len(lines) >= MOST_LINES else f"{note}{wanted}\n"
