"""Cosignatures: what a witness signs, and what does not pass for it."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import CheckpointError
from tests.identity.samples import key_of
from tests.rows import each_row

LOG, WITNESS, OTHER = (key_of(name) for name in ("log", "witness", "other"))
NOTE = checkpoint.issue("log.test", 7, bytes(range(32)), LOG).note
LINE = cosignature.cosign(NOTE, "witness.test", WITNESS, 1_795_000_000)


def test_the_form_is_that_of_transparency_logs() -> None:
    """C2SP tlog-cosignature: key hash with type 4, eight octets of time, a signature over header and note text."""
    dash, name, encoded = LINE.rstrip("\n").split(" ")
    octets = base64.b64decode(encoded)
    assert (dash, name) == ("\u2014", "witness.test")
    assert octets[:4] == hashlib.sha256(b"witness.test\n\x04" + WITNESS.public.raw).digest()[:4]
    assert int.from_bytes(octets[4:12], "big") == 1_795_000_000
    text = NOTE.split("\n\n")[0] + "\n"
    message = f"cosignature/v1\ntime 1795000000\n{text}".encode()
    Ed25519PublicKey.from_public_bytes(WITNESS.public.raw).verify(octets[12:], message)
    assert cosignature.witness_key("witness.test", WITNESS.public).startswith(f"witness.test+{octets[:4].hex()}+")


def test_a_note_with_lines_is_still_the_logs_checkpoint() -> None:
    """Its own signature counts, the witness's line beside it is found by the witness's key alone."""
    note = cosignature.with_line(NOTE, LINE)
    assert cosignature.with_line(note, LINE) == note
    assert checkpoint.verify(note, [LOG.public]).size == 7
    (found,) = cosignature.find_cosignatures(note, [WITNESS.public])
    assert (found.witness, found.seconds, found.line) == ("witness.test", 1_795_000_000, LINE)
    assert cosignature.find_cosignatures(note, [OTHER.public, LOG.public]) == []
    assert checkpoint.signed_by(checkpoint.verify(note, [LOG.public]), [LOG.public]) == NOTE


def test_lines_beside_a_note_are_bounded() -> None:
    """However many witnesses there are, a note stays readable."""
    note = NOTE
    for second in range(40):
        note = cosignature.with_line(note, cosignature.cosign(NOTE, "w", WITNESS, second))
    assert len(note.splitlines()) <= 4 + cosignature.MOST_LINES
    assert checkpoint.verify(note, [LOG.public]).size == 7


@each_row("bit", range(0, 76 * 8, 7))
def test_no_bit_of_a_cosignature_can_change(bit: int) -> None:
    """Key hash, time and signature are all covered."""
    octets = bytearray(base64.b64decode(LINE.split(" ")[2]))
    octets[bit // 8] ^= 1 << bit % 8
    line = f"\u2014 witness.test {base64.b64encode(bytes(octets)).decode()}\n"
    with pytest.raises(CheckpointError):
        cosignature.verify(NOTE, line, [WITNESS.public])


@each_row("what", ["another note", "another name", "another key", "cut", "no line", "the log's own line", "no note"])
def test_what_is_no_cosignature(what: str) -> None:
    """Each is refused by name."""
    note, line, key = NOTE, LINE, WITNESS.public
    if what == "another note":
        note = checkpoint.issue("log.test", 8, bytes(32), LOG).note
    elif what == "another name":
        line = line.replace("witness.test", "witness.tset")
    elif what == "another key":
        key = OTHER.public
    elif what == "cut":
        line = line[:60]
    elif what == "no line":
        line = "thanks\n"
    elif what == "the log's own line":
        line, key = NOTE.splitlines()[-1] + "\n", LOG.public
    else:
        note = "nonsense"
    with pytest.raises(CheckpointError):
        cosignature.verify(note, line, [key])
