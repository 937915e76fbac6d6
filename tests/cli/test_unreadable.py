"""A file or a directory that this user may not read is a problem with its name, and no traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from agtphost.errors import ConfigurationError, report_unreadable
from agtphost.protocols.listener import to_problem
from tests.cli.conftest import Run

DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/srv/agents")


def test_a_path_that_may_not_be_read_is_a_problem() -> None:
    """The problem names the path and what to do, and keeps the words of the system."""
    with pytest.raises(ConfigurationError) as caught, report_unreadable():
        raise DENIED
    (problem,) = caught.value.problems
    assert str(problem) == (
        "/srv/agents: cannot be read: this user has no right to (change its owner or mode, or run this as another user)"
    )
    assert problem.original.startswith("PermissionError: [Errno 13]")


@pytest.mark.parametrize("name", ["agents", "endpoints", "state"])
def test_agtp_check_names_a_directory_that_cannot_be_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before, it ended with a traceback, and took endpoints that it could not list for none."""
    folder = tmp_path / name / name
    assert run("init", str(folder.parent)).exit_code == 0
    folder.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        _deny(monkeypatch, folder)
    folder.chmod(0o000)
    try:
        done = run("check", str(folder.parent / "host.toml"))
    finally:
        folder.chmod(0o700)
    assert done.exit_code == 2 and "this user has no right to" in done.stderr, done.stderr
    assert str(folder) in done.stderr and "Traceback" not in done.output


_STAT = os.stat


def _deny(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the system refuse to look into a directory, as it refuses everyone but root."""
    for name in ("scandir", "listdir", "stat"):
        real = getattr(os, name)

        def guarded(path: object = ".", *args: object, _real: object = real, **options: object) -> object:
            if isinstance(path, (str, os.PathLike)):
                text = os.fspath(path)
                inside = str(text).startswith(f"{folder}/") or (str(text) == str(folder) and _real is not _STAT)
                if inside and not os.lstat(folder).st_mode & 0o700:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(text))
            return _real(path, *args, **options)  # type: ignore[operator]

        monkeypatch.setattr(os, name, guarded)


def test_a_privileged_port_says_how_to_get_one() -> None:
    """The cure is a port or a right, not the mode of a file."""
    denied = CannotListenError("127.0.0.1", 80, PermissionError(errno.EACCES, "Permission denied"))
    problem = to_problem(Failure(denied))
    assert "this user has no right to listen there" in problem.message
    assert "choose a port above 1023" in problem.hint and "CAP_NET_BIND_SERVICE" in problem.hint
