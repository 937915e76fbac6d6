"""Long files that a command writes beside a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agtphost.vocabulary import regular_files
from agtphost.vocabulary.regular_files import FLUSHED_OCTETS, PacedWriter


def test_a_long_file_is_flushed_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of the host never waits until more than a piece is on disk, however the octets came."""
    flushed: list[int] = []
    monkeypatch.setattr(regular_files.os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    file, piece = tmp_path / "long", b"x" * 100_003
    with PacedWriter(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)) as stream:
        stream.writelines([piece] * 100)
        stream.write(piece)
        stream.flush_to_disk()
    assert file.read_bytes() == piece * 101 and flushed[-1] == len(piece) * 101
    assert len(flushed) == 3 and all(
        late - early <= FLUSHED_OCTETS + len(piece) for early, late in zip([0, *flushed], flushed, strict=False)
    )
