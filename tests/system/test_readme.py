"""The README does what it says: its commands are run as they stand there, and its configuration is read."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests import forking
from tests.system.bridging import FIXTURE
from tests.system.hosting import BIN, free_port, newcomer, running, sample, until
from tests.system.test_docs import checked
from tests.system.up_host import Up, typed, up

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.rst").read_text()
INSTALLING = "python3 -m venv .venv && .venv/bin/pip install -q "


def section(title: str) -> str:
    """The text under a heading, up to the next one."""
    parts = re.split(r"^(.+)\n[-=]{3,}\n", README, flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def blocks(text: str) -> list[str]:
    """The literal blocks of ``text``, without their indentation."""
    found = re.findall(r"::\n\n((?:(?: {4}.*)?\n)+?)(?=\S|\Z)", text + "\n")
    return [dedent(block).strip("\n") for block in found]


def lines(text: str) -> list[str]:
    """Every command line of a section's literal blocks."""
    return [line for block in blocks(text) for line in block.replace("\\\n", " ").splitlines() if line]


STORY: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ('cd demo && export PATH="$PWD/../.venv/bin:$PATH"', 0, ()),
    ("agtp tools ls", 0, ("files.list_files",)),
    ("agtp tools call files.list_files", 0, ("welcome.txt", "record verified")),
    ("agtp tools call files.list_files --no-cert", 1, ("401", "agent-unauthenticated", "client certificate")),
    ("agtp audit walk host", 0, ("401", "files.list_files")),
    ("agtp audit verify", 0, ()),
    ("agtp agent deactivate demo --reason lunch", 0, ("suspended",)),
    ("agtp tools call files.list_files", 1, ("503", "agent-suspended")),
    ("agtp agent reinstate demo", 0, ("active",)),
    ("agtp tools call files.list_files", 0, ("welcome.txt", "record verified")),
    ("agtp agent new visitor --scope mcp:tools:execute --admit", 0, ("visitor",)),
    ("agtp tools call files.list_files --as visitor", 0, ("record verified",)),
    ("agtp agent revoke visitor --reason compromise-detected", 0, ("retired",)),
    ("agtp tools call files.list_files --as visitor", 1, ("410", "agent-retired")),
)
"""Every line of "Try it" after the start command: exit status, and what the output has."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as the README leaves it after installing: the samples, and the present environment as ``.venv``."""
    folder = tmp_path_factory.mktemp("checkout")
    sample(folder)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(forking.path())
    return folder


@pytest.fixture(scope="module")
def host(checkout: Path) -> Iterator[Up]:
    """The host to try, started by the README's own command, while another one has the usual port."""
    start = lines(section("Try it"))[0].rpartition(" && ")[2].split()
    assert start == [".venv/bin/agtp", "up", "demo"]
    with up(checkout, "demo") as started:
        yield started


def shell(checkout: Path, *commands: str) -> list[tuple[int, str]]:
    """Run lines one after another in one shell, as a person types them; each line's status and output."""
    script = "\n".join(f"{{ {command}\n}} 2>&1; printf '\\0%d\\0' $?" for command in commands)
    parts = typed(checkout, script)[1].split("\0")
    return [(int(status), output) for output, status in zip(parts[0:-1:2], parts[1::2], strict=True)]


def test_the_start_commands_install_and_start(checkout: Path) -> None:
    """Each is one line: a virtual environment, this checkout, and a host; that of ``twistd`` ends as the text says."""
    first, *_, last = lines(section("Try it"))
    installing = INSTALLING + "'.[samples]' && "
    assert first == installing + ".venv/bin/agtp up demo"
    assert last == installing + ".venv/bin/twistd -n agtp --config etc/host.toml"
    words = last.rpartition(" && ")[2].split()
    prefix = ["bash", "-c", 'cd "$0" && exec ' + " ".join(words), str(checkout)]
    with running(checkout / "etc" / "host.toml", prefix=prefix, environ={"HOME": str(checkout)}) as started:
        assert f"agtphost ready: agtp://127.0.0.1:{started.port}" in started.output
    assert "agtphost ready: agtp://127.0.0.1:4480" in section("Try it")


def test_try_it_line_by_line(host: Up, checkout: Path) -> None:
    """
    The main job as documented: a verified call, a refusal, the trail, a suspension, the revocation, and 410. In the end
    the agent of the tutorial still calls, with a second host on the usual port all along.

    A line that is added to the README and not to the story fails here.
    """
    assert "(a free one)" in host.text
    commands = lines(section("Try it"))[1:-1]
    assert commands == [command for command, _, _ in STORY]
    # On a busy machine the host is ready before its MCP server is: its list says so.
    until(lambda: "(starting)" not in shell(checkout, *commands[:2])[-1][1])
    told = shell(checkout, *commands, STORY[2][0])
    assert told.pop()[0] == 0
    for (command, status, parts), (got, output) in zip(STORY, told, strict=True):
        assert got == status, f"{command}\n{output}"
        for part in parts:
            assert part in output, f"{command}\n{output}"


def test_ci_runs_the_documented_command(tmp_path: Path) -> None:
    """``.ci/run`` takes the test command from the README, word for word, and runs what it took."""
    (documented,) = lines(section("Run the tests"))
    uv = "--require-hashes -r requirements/tools.lock && .venv/bin/uv pip install -q --system-certs --python .venv "
    locked, editable = "--require-hashes -r requirements/dev.lock", "--no-deps --no-build-isolation -e ."
    again = uv.split("&& ")[1]
    assert documented == INSTALLING + f"{uv}{locked} && {again}{editable} && .venv/bin/python -m pytest"
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    (taking,) = [line for line in text.splitlines() if line.startswith("command=")]
    taken = subprocess.run(
        ["bash", "-c", f'{taking}; printf %s "$command"'], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert taken.stdout == documented
    assert text.splitlines()[-4] == 'bash -c "$command"'
    assert text.rstrip().endswith("\n.venv/bin/python -m tests.supply dist")


def test_init_makes_the_documented_deployment(tmp_path: Path) -> None:
    """``agtp init my-host --mcp ...`` of the README writes a deployment that ``agtp check`` finds sound."""
    (command,) = [line for line in lines(section("Put your MCP server behind it")) if line.startswith("agtp init")]
    (tmp_path / "notes").mkdir()
    path = f'export PATH="{BIN}:$PATH"'
    results = shell(tmp_path, path, command, "agtp check my-host/host.toml")
    assert [status for status, _ in results] == [0, 0, 0], results


def test_two_commands_to_an_editor(tmp_path: Path) -> None:
    """
    "Put your MCP server behind it": the first command hosts the server that npx would start, the second writes it into
    VS Code's file, with an agent that calls this server alone.
    """
    first, second = lines(section("Put your MCP server behind it"))[:2]
    assert first.startswith("agtp up my-tools --mcp notes=") and second.startswith("agtp client connect vscode ")
    # What npx finds in the registry is a server already at hand.
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(f"#!/bin/sh\nexec {shlex.join(forking.mcp_server(FIXTURE))}\n")
    npx.chmod(0o755)
    environ = newcomer(tmp_path, npx.parent)
    entry = first.partition("--mcp ")[2].replace("$HOME", str(tmp_path))
    with up(tmp_path, "my-tools", "--mcp", *shlex.split(entry), environ=environ) as host:
        assert f"npx -y @modelcontextprotocol/server-filesystem {tmp_path}/notes" in host.text
        status, said = typed(tmp_path, second, {**environ, "XDG_CONFIG_HOME": ""})
        assert status == 0, said
        file = tmp_path / ".config/Code/User/mcp.json"
        arguments = json.loads(file.read_text())["servers"]["notes"]["args"]
        assert arguments[-2:] == ["--server", "notes"]


def snippets() -> list[str]:
    """Every piece of host.toml in the README: literal blocks, and ``[section] key = value`` in the text."""
    tables = [block for block in blocks(README) if block.startswith("[")]
    inline = re.findall(r"``(\[[a-z.]+\]) ([a-z_]+ = [^`]+)``", README)
    return tables + [f"{table}\n{setting}\n" for table, setting in inline]


def test_there_are_snippets() -> None:
    """The reader of the README finds configuration, and so does this test."""
    assert any("[[mcp.server]]" in snippet for snippet in snippets())
    assert any("approval" in snippet for snippet in snippets())


@pytest.mark.parametrize("snippet", snippets())
def test_every_piece_of_configuration_is_read(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``agtp check`` accepts each section and key that the README names; a misspelt one is refused (the control)."""
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text("#!/bin/sh\n")  # The machine may have none, and `check` looks for the program of a server.
    npx.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npx.parent}:{os.environ['PATH']}")
    file = tmp_path / "host.toml"
    listen = "" if "[listen]" in snippet else f"[listen]\nport = {free_port()}\n\n"
    file.write_text(f'[host]\nserver_id = "localhost"\nprofile = "development"\n\n{listen}{snippet}\n')
    done = checked(file)
    assert done.exit_code == 0, done.output
    key = re.findall(r"^([a-z_]+) =", snippet, flags=re.MULTILINE)[-1]
    file.write_text(file.read_text().replace(f"\n{key} =", f"\n{key}x ="))
    broken = checked(file)
    assert broken.exit_code == 2 and f"{key}x" in broken.output


def test_every_named_setting_exists() -> None:
    """Sections that the text names without a value are ones of the configuration."""
    from agtphost.config.sections import Config

    for name in set(re.findall(r"``\[\[?([a-z]+)[\].]", README)):
        assert name in Config.model_fields, name


def test_every_file_that_the_readme_names_exists() -> None:
    """Paths in the text lead somewhere."""
    for name in re.findall(r"``((?:etc|tests|agtphost|docs)/[A-Za-z0-9_./]*)``", README):
        if not name.startswith("etc/state"):
            assert (ROOT / name).exists(), name
