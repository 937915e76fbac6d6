"""``docs/first-minutes.rst``, played from the top: every command, and the whole of what each says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.system.hosting import BIN
from tests.system.pages import blocks, playing, steps

PAGE = "first-minutes.rst"
HOME = "/home/me"
TOKENS = (
    (r"\b[0-9a-f]{64}\b", "AUDIT-ID"),
    # As the interpreter was called that runs the tests.
    (r"\bbin/python3?(\.\d+)?\b", "bin/python"),
    (r"\d{8}T\d{6}\.\d+Z", "TIME"),
    (r"\(\d+\.\d+ s\)", "(1.2 s)"),
    (r"\b\d+\.\d+s\b", "0.12s"),
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
    # Columns are as wide as what is in them.
    (r"(?<=\S) {2,}", "  "),
)
"""What differs from run to run."""


def told(text: str, folder: Path, port: int) -> list[str]:
    """What was said, as it is on the page: in the page's directory, with its port, and with what differs named."""
    for mine, its in ((str(BIN), f"{HOME}/.venv/bin"), (str(folder), HOME), (f":{port}", ":4480")):
        text = text.replace(mine, its)
    for pattern, name in TOKENS:
        text = re.sub(pattern, name, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_page_line_by_line(tmp_path: Path) -> None:
    """
    The host of the first command runs while the others are typed in another terminal; all say what the page says.

    The page's host has the usual port. Here another one has that, and so one line more is said.
    """
    (tmp_path / ".vscode").mkdir()
    (configuration,) = [block for block in blocks(PAGE) if block.startswith("{")]
    (tmp_path / ".vscode" / "mcp.json").write_text(configuration)
    environ = {"HOME": str(tmp_path)}
    with playing(steps(PAGE)) as player:
        first, *others = steps(PAGE)
        assert first.command == "agtp up demo" and len(others) >= 9
        host = player.up(first, tmp_path, last='  "agtp": {', environ=environ)
        try:
            port = int(host.wait().value("port"))
            assert told(host.text.replace(f"port       {port}  (a free one)\n", ""), tmp_path, port) == [*first.shown]
            for step in others:
                got, output = player.type(step, tmp_path, environ=environ)
                assert got == step.status, f"{step.command}\n{output}"
                assert told(output, tmp_path, port) == [*step.shown], step.command
        finally:
            host.stop()
