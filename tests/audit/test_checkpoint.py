"""Checkpoints are signed notes that any transparency log tool reads, and nothing else passes for one."""

from __future__ import annotations

import base64
from hashlib import sha256

import pytest

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import CheckpointError
from agtphost.identity.keys import SigningKey
from tests.audit.drafting import KEY
from tests.identity.samples import key_of
from tests.rows import each_row

ROOT = sha256(b"root").digest()


def test_the_form_is_that_of_the_specification() -> None:
    """C2SP tlog-checkpoint and signed-note, taken apart by hand and verified with the key alone."""
    note = checkpoint.issue("agtp.example", 42, ROOT, KEY).note
    lines = note.split("\n")
    assert lines[:4] == ["agtp.example", "42", base64.b64encode(ROOT).decode(), ""]
    mark, name, value = lines[4].split(" ")
    assert (mark, name, lines[5:]) == ("\u2014", "agtp.example", [""])
    octets = base64.b64decode(value)
    assert octets[:4] == sha256(b"agtp.example\n\x01" + KEY.public.raw).digest()[:4]
    assert KEY.public.verify(octets[4:], "\n".join(lines[:3]).encode() + b"\n")


def test_the_verifier_key_names_the_same_key() -> None:
    """What a log tool is configured with."""
    name, digest, key = checkpoint.verifier_key("agtp.example", KEY.public).split("+", 2)
    assert (name, digest) == ("agtp.example", checkpoint.key_hash(name, KEY.public).hex())
    assert base64.b64decode(key) == b"\x01" + KEY.public.raw


def test_what_was_issued_is_read_back() -> None:
    """Also with a witness's signature above and below the host's own."""
    issued = checkpoint.issue("a b+c", 7, ROOT, KEY)
    assert issued.origin == "a-b-c"
    assert checkpoint.verify(issued.note, [SigningKey.generate().public, KEY.public]) == issued
    text, _, own = issued.note.partition("\n\n")
    other = "\u2014 witness.example " + base64.b64encode(bytes(72)).decode() + "\n"
    for signatures in (other + own, own + other):
        assert checkpoint.verify(f"{text}\n\n{signatures}", [KEY.public]).size == 7


NOTE = checkpoint.issue("agtp.example", 42, ROOT, KEY).note


@each_row(
    "note",
    [
        "",
        "agtp.example\n42\n",
        NOTE.replace("42", "042"),
        NOTE.replace("42", "-1"),
        NOTE.replace("42", "\u0664\u0662"),
        NOTE.replace("42", "43"),
        NOTE.replace("agtp.example\n42", "agtp.other\n42"),
        NOTE.replace("\n42\n", "\n42\n\n"),
        NOTE.replace("=\n\n", "\n\n"),
        NOTE.replace("\u2014", "-"),
        NOTE.replace("\u2014 agtp.example", "\u2014 agtp.other"),
        NOTE[:-4] + "A=\n",
        NOTE + "more\n",
        NOTE + "x" * 20_000,
        checkpoint.issue("agtp.example", 42, ROOT, None).note,
        checkpoint.issue("agtp.example", 42, ROOT, key_of("checkpoint test_everything_else_is_refused")).note,
    ],
    ids=lambda note: str(len(note)),
)
def test_everything_else_is_refused(note: str) -> None:
    """One changed character, another key's note, an unsigned one, a huge one."""
    with pytest.raises(CheckpointError):
        checkpoint.verify(note, [KEY.public])
