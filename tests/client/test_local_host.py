"""What is kept of a ``host.toml`` that was read, and when it is read again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agtphost.client import local_host
from agtphost.client.cache_files import MOST
from agtphost.client.local_host import INPUTS, LocalHost, recall, remember
from agtphost.client.target import host_for
from agtphost.config import load, loader, secret

TEXT = '[host]\nserver_id = "localhost"\nprofile = "development"\n[listen]\nport = 4490\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host.toml without fault; the cache directory is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGTPHOST_STATE_DIR", raising=False)
    written = tmp_path / "host.toml"
    written.write_text(TEXT)
    return written


def kept(tmp_path: Path) -> Path:
    """The one file that is kept."""
    (found,) = (tmp_path / "cache" / "agtphost" / "hosts").iterdir()
    return found


def test_what_was_read_is_what_is_recalled(file: Path) -> None:
    """Every member, and nothing before the first reading."""
    assert recall(file) is None
    assert host_for("agtp://127.0.0.1:4490", file) == recall(file) == LocalHost.of(load(file))


def test_all_that_paths_depend_on_counts(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text, the place, and the environment, whose variables the configuration itself names."""
    assert {loader.STATE_VARIABLE, secret.CREDENTIALS, "HOME"} == set(INPUTS)
    remember(file, LocalHost.of(load(file)))
    for name in INPUTS:
        with monkeypatch.context() as changed:
            changed.setenv(name, str(tmp_path / "other"))
            assert recall(file) is None, name
    other = tmp_path / "elsewhere" / "host.toml"
    other.parent.mkdir()
    shutil.copy(file, other)
    assert recall(other) is None
    file.write_text(TEXT + "\n")
    assert recall(file) is None


def test_a_file_with_a_fault_is_read_each_time(file: Path) -> None:
    """So that each command warns of it."""
    file.write_text(TEXT + "[metrics]\nsrever = 1\n")
    assert host_for("agtp://127.0.0.1:4490", file) is not None
    assert recall(file) is None


def _open_to_others(place: Path) -> None:
    place.chmod(0o666)


def _open_directory(place: Path) -> None:
    place.parent.chmod(0o777)


def _foreign_member(place: Path) -> None:
    place.write_text(json.dumps({**json.loads(place.read_text()), "port": "4490"}))


CHANGES = {
    "open to others": _open_to_others,
    "open directory": _open_directory,
    "no JSON": lambda place: place.write_text("{"),
    "not an object": lambda place: place.write_text("[]"),
    "a member less": lambda place: place.write_text("{}"),
    "wrong type": _foreign_member,
    "a directory": lambda place: (place.unlink(), place.mkdir()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_others_could_have_written_does_not_count(file: Path, tmp_path: Path, name: str) -> None:
    """Otherwise another user could choose the host and the authority that commands trust."""
    remember(file, LocalHost.of(load(file)))
    assert recall(file) is not None
    CHANGES[name](kept(tmp_path))
    assert recall(file) is None


def test_only_so_many_are_kept(file: Path, tmp_path: Path) -> None:
    """The newest are."""
    host = LocalHost.of(load(file))
    for at in range(MOST + 5):
        file.write_text(f"{TEXT}# {at}\n")
        remember(file, host)
        os.utime(max((tmp_path / "cache/agtphost/hosts").iterdir(), key=lambda each: each.stat().st_ctime_ns), (at, at))
    assert len(list((tmp_path / "cache/agtphost/hosts").iterdir())) == MOST
    assert recall(file) == host
    file.write_text(f"{TEXT}# 0\n")
    assert recall(file) is None


def test_nothing_is_kept_where_nothing_can_be(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of the directory, no home, and a relative one: the configuration is read each time."""
    (tmp_path / "cache").write_text("")
    assert host_for("agtp://127.0.0.1:4490", file) is not None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert host_for("agtp://127.0.0.1:4490", file) is not None
    assert recall(file) is None
    assert local_host._file_for(file, {}) is None
    assert not (tmp_path / "relative").exists()


def test_second_command_reads_no_configuration(file: Path) -> None:
    """Half of what `agtp tools ls` cost was to load the models of the configuration."""
    script = (
        "import sys; from agtphost.client.target import find, Credentials\n"
        "from agtphost.client.errors import InvalidCall\n"
        "try: find(sys.argv[1], None, Credentials())\n"
        "except InvalidCall as error: assert 'authority' in str(error), error\n"
        "print('pydantic' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(file)]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)]
    assert said == ["True", "False"]
