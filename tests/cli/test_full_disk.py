"""Commands whose output meets a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")

COMMANDS = {
    "text": ("methods",),
    "help": ("call", "--help"),
    "JSON": ("methods", "--json"),
    "JSON of an error": ("cert", "show", "none.pem", "--json"),
    "records": ("audit", "export"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output_that_cannot_be_written_is_named(folder: Path, name: str) -> None:
    """Status 2 and one message, without a traceback; the store of this host has not begun, which is an error too."""
    command = [str(Path(sys.executable).with_name("agtp")), *COMMANDS[name]]
    with FULL.open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("error: ") == 1 and "Traceback" not in done.stderr, done.stderr
    if name in ("text", "help", "JSON"):
        assert "a file cannot be written: the disk is full\n  Free some space" in done.stderr
