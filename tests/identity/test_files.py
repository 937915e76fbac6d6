"""Files appear whole or not at all."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agtphost.identity import files


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_written_once(tmp_path: Path) -> None:
    """The second write fails and changes nothing; nothing else is left in the directory."""
    path = tmp_path / "f"
    files.write_once(path, b"first", files.PRIVATE)
    with pytest.raises(FileExistsError):
        files.write_once(path, b"second", files.PUBLIC)
    assert path.read_bytes() == b"first"
    assert mode_of(path) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


@contextmanager
def nearly_full() -> Iterator[None]:
    """As on a disk that fills up: no file can have more than ten octets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_leaves_nothing_and_names_the_file(tmp_path: Path) -> None:
    """Neither a part of a new file nor one of a file's next content; what was there stays."""
    old = tmp_path / "old"
    files.write_once(old, b"first", files.PRIVATE)
    for write, path in ((files.write_once, tmp_path / "new"), (files.replace, old)):
        with nearly_full(), pytest.raises(OSError, match="too large") as full:
            write(path, b"x" * 100, files.PRIVATE)
        assert full.value.filename == str(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["old"]
    assert old.read_bytes() == b"first"


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """A key is 0600 under any umask, a certificate 0644."""
    for mask in (0, 0o077):
        old = os.umask(mask)
        try:
            files.write_once(tmp_path / f"k{mask}", b"", files.PRIVATE)
            files.write_once(tmp_path / f"c{mask}", b"", files.PUBLIC)
        finally:
            os.umask(old)
        assert (mode_of(tmp_path / f"k{mask}"), mode_of(tmp_path / f"c{mask}")) == (0o600, 0o644)


def test_it_works_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On file systems that have none, renaming does, and still never overwrites."""

    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    files.write_once(tmp_path / "f", b"first", files.PRIVATE)
    with pytest.raises(FileExistsError):
        files.write_once(tmp_path / "f", b"second", files.PRIVATE)
    assert (tmp_path / "f").read_bytes() == b"first"
    assert len(list(tmp_path.iterdir())) == 1


def test_octets_are_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is flushed, then named, then its directory is flushed: a power cut shows all of it or none."""
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(descriptor: int) -> None:
        steps.append("flush directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "flush file")
        fsync(descriptor)

    def noted_link(source: Path, target: Path) -> None:
        steps.append("name")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    files.write_once(tmp_path / "f", b"x", files.PRIVATE)
    assert steps == ["flush file", "name", "flush directory"]


def test_replacing_keeps_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed replacement leaves the old content and no debris; a good one leaves the new."""
    path = tmp_path / "f"
    files.write_once(path, b"old", files.PUBLIC)
    files.replace(path, b"new", files.PUBLIC)
    assert path.read_bytes() == b"new"

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        files.replace(path, b"newer", files.PUBLIC)
    assert path.read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_directories_are_for_the_owner(tmp_path: Path) -> None:
    """New ones are 0700, each of them; existing ones keep their mode."""
    tmp_path.chmod(0o755)
    files.make_directory(tmp_path / "a" / "b")
    files.make_directory(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o700
    assert mode_of(tmp_path) == 0o755
