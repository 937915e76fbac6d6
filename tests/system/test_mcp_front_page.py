"""``docs/mcp-front.rst``, played word for word where nothing is set up: no home, a bare PATH, the usual port taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.system.hosting import free_port
from tests.system.pages import Step, blocks, playing, steps

PAGE = "mcp-front.rst"
PORT = "8931"
CONFIG, CALL, CURL = "[mcp.front]", '{"jsonrpc": "2.0", "id": 1, "method": "tools/call"', "url = "


def plain(text: str, port: int) -> list[str]:
    """The lines of an output; identifiers, which differ from run to run, and the port aside."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "ID", text.replace(str(port), PORT))
    text = re.sub(r"/\S+/\.cursor/", "/home/me/.cursor/", text)
    return [line.rstrip() for line in re.sub(r'"version":"[^"]+"', '"version":""', text).splitlines()]


def block(begins: str) -> str:
    """The one block of the page that begins so."""
    (found,) = [each for each in blocks(PAGE) if each.startswith(begins)]
    return found


def write(folder: Path, port: int) -> None:
    """What the page says is to be written."""
    work = folder / "work"
    with (work / "host.toml").open("a") as file:
        file.write("\n" + block(CONFIG).replace(PORT, str(port)) + "\n")
    (work / "call.json").write_text(block(CALL) + "\n")
    (work / "call.curl").write_text(block(CURL).replace(PORT, str(port)) + "\n")


def played(folder: Path, port: int) -> Iterator[tuple[Step, int, str]]:
    """Every command of the page, with its status and what it said."""
    with ExitStack() as hosts, playing(steps(PAGE)) as player:
        for step in steps(PAGE):
            if step.command.startswith("agtp up "):
                write(folder, port)
                up = player.up(step, folder, last="}")
                hosts.callback(up.stop)
                up.wait()
                continue
            yield step, *player.type(step, folder, line=step.command.replace(PORT, str(port)))


@pytest.mark.timeout(120)
def test_the_page_is_as_it_goes(tmp_path: Path) -> None:
    """Each command, its status, and all that it says where the page shows that."""
    port = free_port()
    for step, status, output in played(tmp_path, port):
        assert status == step.status, f"{step.command}\n{output}"
        if step.shown:
            assert plain("\n".join(step.shown), port) == plain(output.strip("\n"), port), step.command
