"""What runs where: ``docs/platforms.rst``. Windows is played by taking away the modules that it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agtphost.cli.root import COMMANDS, HOST_COMMANDS
from agtphost.vocabulary.platforms import POSIX_MODULES

PLAYED = f"""
import builtins
real = builtins.__import__

def lacking(name, globals=None, *rest, **named):
    # Twisted and the standard library of this system use these modules; on Windows they have other code.
    importer = (globals or {{}}).get("__name__", "")
    if name in {sorted(POSIX_MODULES)!r} and importer.partition(".")[0] in ("agtphost", "__main__"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return real(name, globals, *rest, **named)

builtins.__import__ = lacking
from agtphost.vocabulary import platforms
platforms.lacks_host.__defaults__ = ("win32",)
platforms.explain_platform.__defaults__ = ("win32",)
"""


def play(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code as on Windows, as far as this system can."""
    return subprocess.run(
        [sys.executable, "-c", PLAYED + code], cwd=cwd, capture_output=True, text=True, timeout=240, env={**os.environ}
    )


EVERY_COMMAND = """
import json
from click.testing import CliRunner
from agtphost.cli.root import COMMANDS, agtp
told = {}
for name in COMMANDS:
    done = CliRunner().invoke(agtp, [name, "--help"], prog_name="agtp")
    told[name] = [done.exit_code, done.output]
print(json.dumps(told))
"""


def test_commands_that_call_hosts_load_on_windows(tmp_path: Path) -> None:
    """Every command shows its help, or is refused by name with where it runs; none ends in an ImportError."""
    done = play(EVERY_COMMAND, tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told) == set(COMMANDS)
    refused = {name for name, (status, _) in told.items() if status}
    for name in refused:
        assert told[name][0] == 2 and f"agtp {name} does not run on Windows" in told[name][1], told[name]
        assert "Linux or macOS" in told[name][1]
    assert refused == HOST_COMMANDS
    calling = {"call", "tools", "resolve", "mcp-bridge", "approvals", "conformance", "registry", "reload", "status"}
    assert calling <= set(told) - refused


@pytest.mark.parametrize(
    "module",
    ["agtphost", "agtphost.client", "agtphost.client.aio", "agtphost.client.sync", "agtphost.bridge", "agtphost.iagtp"],
)
def test_clients_and_bridge_import_on_windows(module: str, tmp_path: Path) -> None:
    """The libraries that the page lists can be imported."""
    done = play(f"import importlib; importlib.import_module({module!r})", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.release
def test_a_host_does_not_import_on_windows(tmp_path: Path) -> None:
    """The control of the libraries: a host uses what Windows lacks."""
    control = play("import agtphost.host.root", tmp_path)
    assert control.returncode != 0 and "ModuleNotFoundError" in control.stderr


def test_twistd_agtp_is_refused_by_name(tmp_path: Path) -> None:
    """Before anything is read."""
    code = "from agtphost import tap\no = tap.Options(); o['config'] = 'host.toml'; tap.makeService(o)"
    done = play(code, tmp_path)
    assert done.returncode == 1 and "twistd agtp does not run on Windows" in done.stderr, done.stderr


def test_a_part_of_a_command_that_needs_a_host_is_refused(tmp_path: Path) -> None:
    """A command that loads, and then needs what Windows lacks, says so too: nothing ends in a traceback."""
    code = (
        "import click\nfrom agtphost.cli import root\n"
        "@click.command()\ndef command():\n    import fcntl\n"
        "import types, sys as s\nm = types.ModuleType('agtphost.cli.planted'); m.command = command\n"
        "s.modules['agtphost.cli.planted'] = m\nroot.COMMANDS['planted'] = ('x', 'planted')\n"
        "root.agtp(['planted'], prog_name='agtp')\n"
    )
    done = play(code, tmp_path)
    assert done.returncode == 2 and "does not run on Windows" in done.stderr and "Traceback" not in done.stderr
