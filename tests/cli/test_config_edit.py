"""Changes of a deployment's files by commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agtphost.cli.config_edit import FileChange, write_changes
from agtphost.cli.failures import WrongInput
from tests.system.hosting import agtp

COMMANDS, TIMES = 4, 40


def test_no_change_is_lost_where_commands_run_at_the_same_time(tmp_path: Path) -> None:
    """Each command that wrote its line finds it in the end; the others are told to run again."""
    file = tmp_path / "host.toml"
    file.write_text("")

    def add(number: int) -> None:
        for time in range(TIMES):
            line = f"{number}.{time}\n".encode()
            while True:
                before = file.read_bytes()
                try:
                    with write_changes([FileChange(file=file, before=before, after=before + line)]):
                        break
                except WrongInput as error:
                    assert "changed by another program" in str(error)

    with ThreadPoolExecutor(COMMANDS) as pool:
        list(pool.map(add, range(COMMANDS)))
    assert sorted(file.read_text().split()) == sorted(
        f"{number}.{time}" for number in range(COMMANDS) for time in range(TIMES)
    )


def test_a_refused_change_is_undone_before_another_command_writes(tmp_path: Path) -> None:
    """The file is as before, with the refusal as the error."""
    first, second = tmp_path / "host.toml", tmp_path / "env"
    first.write_text("a")
    second.write_text("b")
    changes = [FileChange(file=each, before=each.read_bytes(), after=b"c") for each in (first, second)]
    with pytest.raises(WrongInput, match="refused"), write_changes(changes):
        assert (first.read_text(), second.read_text()) == ("c", "c")
        raise WrongInput("refused", "")
    assert (first.read_text(), second.read_text()) == ("a", "b")


def test_a_command_that_waits_for_another_says_so(tmp_path: Path) -> None:
    """Another command may wait for a minute for a host's answer to its reload."""
    file = tmp_path / "host.toml"
    file.write_text("a")
    with write_changes([FileChange(file=file, before=b"a", after=b"c")]):
        words = (sys.executable, "-c", _WRITE, str(file))
        other = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert other.stderr is not None
        noted = other.stderr.readline()
    assert other.communicate()[1] == "" and other.returncode == 0
    assert noted == f"note: waiting for another command that changes files in {tmp_path}\n"
    assert file.read_text() == "d"


_WRITE = """
import sys
from pathlib import Path
from agtphost.cli.config_edit import FileChange, write_changes
with write_changes([FileChange(file=Path(sys.argv[1]), before=b"c", after=b"d")]):
    pass
"""


def test_each_file_that_can_be_undone_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where another program has changed one of the files, the others are undone, and the refusal stays the error."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
        (folder / "file").write_text("before")
    first, second, third = (folder / "file" for folder in folders)
    changes = [FileChange(file=each, before=b"before", after=b"after") for each in (first, second, third)]
    with pytest.raises(WrongInput, match="refused"), write_changes(changes):
        second.write_text("of an editor")
        raise WrongInput("refused", "")
    assert [each.read_text() for each in (first, second, third)] == ["before", "of an editor", "before"]
    assert f"{second} keeps what it has" in capfd.readouterr().err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can act as two users")
def test_a_file_whose_owner_cannot_be_kept_is_not_written() -> None:
    """A command of a user who may write the directory, and not give files away, changes nothing."""
    with tempfile.TemporaryDirectory() as name:
        directory, file = Path(name), Path(name) / "host.toml"
        directory.chmod(0o777)
        file.write_text("a")
        os.seteuid(65534)
        try:
            with pytest.raises(WrongInput, match="cannot be written"):
                FileChange(file=file, before=b"a", after=b"b").write()
        finally:
            os.seteuid(0)
        assert (file.read_text(), file.stat().st_uid) == ("a", 0)
        assert [each.name for each in directory.iterdir()] == ["host.toml"]


def test_a_change_stays_with_its_secrets_where_the_host_gives_no_answer(tmp_path: Path) -> None:
    """A host that ends the TLS handshake may be one that stops: its next start finds file and secret together."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        made = agtp("init", "site", "--production", "--server-id", "localhost", "--port", port, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        config = tmp_path / "site/host.toml"
        thread = threading.Thread(target=_end_connections, args=(server,))
        thread.start()
        words = ("--env", "TOKEN=x", "--config", str(config), "notes", sys.executable)
        done = agtp("upstream", "add", *words, cwd=config.parent)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert done.returncode == 3 and "changed; whether the host has applied it is unknown" in done.stderr, done.stderr
    assert 'name = "notes"' in config.read_text()
    assert (config.parent / "secrets/notes.TOKEN").read_text() == "x\n"


def _end_connections(server: socket.socket) -> None:
    """Accept connections, and end them immediately, until the server is shut down."""
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return
