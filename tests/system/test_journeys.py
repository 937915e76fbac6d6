"""``docs/journeys.rst``, played word for word where nothing is set up: no home, a bare PATH, the usual port taken."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forking
from tests.programmes import CHOSEN
from tests.system.hosting import BIN, newcomer
from tests.system.pages import DOCS, blocks, playing, steps
from tests.system.test_first_minutes import HOME, told
from tests.system.up_host import beside

PAGE = "journeys.rst"


MOST = 45.0
"""Seconds from an empty machine to the first verified call."""

COUNTS = {
    "A first verified tool call": 2,
    "Your own MCP server, in the editor": 2,
    "This agent, only that tool": 1,
    "Stop an agent": 1,
    "Proof for an auditor": 2,
    "Why was that refused?": 2,
    "A change without a restart": 1,
    "Back up, and restore": 2,
}
"""Commands of each journey; of the refusal, the first is the refused call itself."""

VARYING = (
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"^(port +)\d+", r"\1PORT"),
    (r"(?<=key:)[0-9a-f]{8}", "KEY"),
    (r"(?<=: )\d+\.\d KiB", "SIZE"),
    # Of how many records, and whether one is covered yet, depends on the moment.
    (r"the checkpoint of \d+", "the checkpoint of SOME"),
    (r"^ +log +entry .*\n", ""),
    (r"^the port accepts; still starting.*\n", ""),
)
"""What differs from run to run besides the tokens of :mod:`tests.system.test_first_minutes`."""


def plain(text: str, folder: Path) -> list[str]:
    """The lines of an output, with what differs between two runs taken out."""
    text = text.replace(forking.path(), str(BIN)).replace(str(beside(folder)), HOME)
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.strip() for line in told(text, folder, 0)]


def edit(folder: Path) -> None:
    """What the page says was edited before the reload."""
    (added,) = [block for block in blocks(PAGE) if block.startswith("[log]")]
    with (folder / "work" / "host.toml").open("a") as file:
        file.write(f"\n{added}\n")


BEFORE: dict[str, Callable[[Path], None]] = {"agtp reload --config work": edit}


@dataclass(frozen=True)
class Said:
    """What one command of the page came to."""

    command: str
    status: int
    expected: int
    output: str
    shown: tuple[str, ...]


def played(folder: Path) -> Iterator[Said]:
    """Every command of the page, one after the other, in a directory where nothing is yet."""
    with ExitStack() as hosts, playing(steps(PAGE)) as player:
        for step in steps(PAGE):
            BEFORE.get(step.command, lambda _: None)(folder)
            if step.command.startswith("agtp up "):
                up = player.up(step, folder, last='  "agtp": {')
                hosts.callback(up.stop)
                up.wait()
                output, status = "\n".join(up.lines), 0
            else:
                status, output = player.type(step, folder)
            yield Said(step.command, status, step.status, output, step.shown)


@pytest.mark.release
def test_every_journey_is_as_the_page_tells_it(tmp_path: Path) -> None:
    """Each command, its status, and all that it says; nothing more, and nothing less."""
    for said in played(tmp_path):
        assert said.status == said.expected, f"{said.command}\n{said.output}"
        assert plain("\n".join(said.shown), Path(HOME)) == plain(said.output, tmp_path), said.command


def test_no_journey_takes_more_commands_than_it_may() -> None:
    """Two to the first verified call, two into the editor, one for a right, two for proof, one for why."""
    parts = re.split(r"^(.+)\n-{3,}$", (DOCS / PAGE).read_text(), flags=re.MULTILINE)
    counted = {
        title: len(re.findall(r"^    \$ ", text, flags=re.MULTILINE))
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert counted == COUNTS


@pytest.mark.programme
@pytest.mark.timeout(900)
def test_from_nothing_to_the_first_verified_call(tmp_path: Path) -> None:
    """
    With ``--programmes``, everything is installed as well: both commands of a fresh machine within 45 seconds.

    Otherwise what is installed here is used, and forked, and nothing is said of the time.
    """
    home = tmp_path / "home"
    home.mkdir()
    bare = {**newcomer(home), "PATH": "/usr/bin:/bin"}
    began, agtp = time.monotonic(), BIN / "agtp"
    if CHOSEN.whole:
        room = tmp_path / ".venv"
        subprocess.run([sys.executable, "-m", "venv", str(room)], check=True, env=bare, timeout=300)
        pip = [str(room / "bin" / "pip"), "install", "-q", f"{DOCS.parent}[samples]"]
        subprocess.run(pip, check=True, env={**os.environ, "HOME": str(home)}, timeout=600)
        agtp = room / "bin" / "agtp"
    begin = subprocess.Popen if CHOSEN.whole else forking.start
    host = begin([agtp, "up", "work"], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=bare)
    try:
        assert host.stdout is not None and any(line.startswith("ready") for line in host.stdout)
        call = [agtp, "tools", "call", "files.read_file", "path=welcome.txt", "--config", "work"]
        done = forking.run(call, cwd=tmp_path, env=bare)
        assert done.returncode == 0 and "record verified" in done.stderr + done.stdout, done.stdout + done.stderr
        print(f"{time.monotonic() - began:.1f} s")
        if CHOSEN.whole:
            assert time.monotonic() - began < MOST
    finally:
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=60)
