"""``docs/first-minutes.rst``, played from the top: every command, and the whole of what each says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.system.hosting import BIN, free_port
from tests.system.test_docs import blocks
from tests.system.up_host import typed, up

PAGE = "first-minutes.rst"
HOME = "/home/me"
TOKENS = (
    (r"\b[0-9a-f]{64}\b", "AUDIT-ID"),
    # As the interpreter was called that runs the tests.
    (r"\bbin/python3?(\.\d+)?\b", "bin/python"),
    (r"\d{8}T\d{6}\.\d+Z", "TIME"),
    (r"\(\d+\.\d s\)", "(1.2 s)"),
    (r"\d\.\d+s\b", "0.12s"),
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


def commands() -> list[tuple[str, int, list[str]]]:
    """Each line after ``$``, its exit status, and the lines below it."""
    found: list[tuple[str, int, list[str]]] = []
    for block in blocks(PAGE):
        for line in block.splitlines() if block.startswith("$ ") else ():
            if line.startswith("$ "):
                command, _, status = line[2:].partition("  # ")
                found.append((command, int(status or 0), []))
            elif line.strip():
                found[-1][2].append(line.rstrip())
    return found


def test_the_page_line_by_line(tmp_path: Path) -> None:
    """The host of the first command runs while the others are typed in another terminal; all say what the page says."""
    (tmp_path / ".vscode").mkdir()
    (configuration,) = [block for block in blocks(PAGE) if block.startswith("{")]
    (tmp_path / ".vscode" / "mcp.json").write_text(configuration)
    (first, _, shown), *others = commands()
    assert first == "agtp up demo" and len(others) >= 9
    port = free_port()
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "AGTPHOST_PORT": str(port)}
    with up(tmp_path, "demo", environ=environ) as host:
        assert told(host.text, tmp_path, port) == shown
        for command, status, lines in others:
            got, output = typed(tmp_path, command, environ)
            assert got == status, f"{command}\n{output}"
            assert told(output, tmp_path, port) == lines, command
