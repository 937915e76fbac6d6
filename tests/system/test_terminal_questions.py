"""Questions that commands ask on a terminal before they take rights, or give what nothing asks for: by a real pty."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Iterator

import pytest

from tests import forking
from tests.system.hosting import BIN, Host, running, sample


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("asked"))) as started:
        yield started


def answer(host: Host, typed: str, *words: str) -> tuple[int, str]:
    """
    Run a command on a terminal, and answer its question once it is shown.

    :param typed: the answer; empty for a command that must not ask.
    :return: exit status, and what the terminal showed.
    """
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = forking.start(
        [BIN / "agtp", *words], cwd=host.config.parent, env={**os.environ, "TERM": "xterm"}, **streams
    )
    os.close(theirs)
    said, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([ours], [], [], 60)[0]:
            break
        try:
            piece = os.read(ours, 65_536)
        except OSError:
            break  # The other end is closed.
        said += piece
        if b"[y/N]" in said and typed:
            os.write(ours, typed.encode() + b"\n")
            typed = ""
        elif b"[y/N]" in said and not typed and said.count(b"[y/N]") > 1:
            raise AssertionError(f"it asks twice: {said!r}")
    os.close(ours)
    return process.wait(60), said.decode().replace("\r\n", "\n")


def narrowed(host: Host, agent: str) -> bool:
    return bool(host.agtp_json("agent", "rights", agent)["narrowed"])


def test_the_first_limit_of_an_agent_is_asked_about(host: Host) -> None:
    """The question says what the agent loses; no changes nothing, yes limits, and later limits are not asked about."""
    limit = ("agent", "limit", "demo", "files.read_file")
    status, said = answer(host, "n", *limit)
    assert status == 2 and "after this only these: files.read_file" in said and "nothing was changed" in said, said
    assert "agtp agent allow demo" in said and not narrowed(host, "demo")
    status, said = answer(host, "y", *limit)
    assert status == 0 and "from its next request on it may call only these" in said, said
    assert narrowed(host, "demo") and "admin" in said, "the grant names the operator"
    status, said = answer(host, "", "agent", "limit", "demo", "files.list_files")
    assert status == 0 and "[y/N]" not in said, said


def test_a_first_limit_with_yes_is_not_asked_about(host: Host) -> None:
    """Neither on a terminal with --yes; without a terminal and without it nothing is done."""
    refused = host.agtp("agent", "limit", "librarian", "SUMMARIZE")
    assert refused.returncode == 2 and "Add --yes to limit it." in refused.stderr and not narrowed(host, "librarian")
    status, said = answer(host, "", "agent", "limit", "librarian", "SUMMARIZE", "--yes")
    assert status == 0 and "[y/N]" not in said and narrowed(host, "librarian"), said


def test_a_scope_that_nothing_asks_for_is_questioned(host: Host) -> None:
    """The warning names the nearest scopes; no gives nothing."""
    status, said = answer(host, "n", "agent", "allow", "demo", "mcp:tools:exekute")
    assert status == 2 and "asks for mcp:tools:exekute; nearest: mcp:tools:execute" in said, said
    assert "Give it all the same?" in said and "nothing was changed" in said
    assert "exekute" not in host.agtp("agent", "rights", "demo").stdout
