"""The programs of docs/client.rst, as they stand there, print what stands there; frameworks of others among them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.identity.provisioning import provision_development
from tests import pypi
from tests.docs.test_commands import ROOT
from tests.programmes import length
from tests.supply.test_supply import PROJECT
from tests.system.held_calls import SETTINGS, fingerprint
from tests.system.hosting import Host, running, sample

PAGE = (ROOT / "docs" / "client.rst").read_text()
FOUND = re.findall(
    r"``(\w+)\.py``::\n\n((?:(?: {4}.*)?\n)+)It prints::\n\n    \$ python \1\.py\n((?:(?: {4}.*)?\n)+)", PAGE
)
PROGRAMS = {name: (re.sub(r"^ {4}", "", program, flags=re.MULTILINE), printed) for name, program, printed in FOUND}

FRAMEWORKS = {
    "langchain_agent": ("langchain==1.4.7", "langchain-mcp-adapters==0.3.2"),
    "llama_agent": ("llama-index-tools-mcp==0.6.0",),
}
"""Programs that need packages of others, with versions of what this project needs that are not its own."""


def masked(text: str) -> list[str]:
    """Lines without what differs from one host to the next: identifiers and the port."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
    return [re.sub(r"[0-9a-f]{12,}", "#", line).strip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host, where deleting a note needs an approval, as docs/approvals.rst has it."""
    config = sample(tmp_path_factory.mktemp("page"))
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    operator = f'"{fingerprint(state / "registrar.pem")}"'
    config.write_text(config.read_text() + SETTINGS.format(policy="", operators=operator))
    with running(config) as found:
        found.agtp_json("tools", "call", "files.list_files")  # The server starts with its first call.
        yield found


def test_the_page_has_programs() -> None:
    """All that are told of are found."""
    assert len(PROGRAMS) == PAGE.count("It prints::") == 10
    assert set(FRAMEWORKS) < set(PROGRAMS)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in FRAMEWORKS and "twisted" not in name])
def test_a_program_prints_what_the_page_shows(
    name: str, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run where the host's host.toml is."""
    program, printed = PROGRAMS[name]
    file = tmp_path / f"{name}.py"
    file.write_text(program)
    monkeypatch.chdir(host.config.parent)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        runpy.run_path(str(file), run_name="__main__")
    assert masked(shown.getvalue()) == masked(printed)


def run(python: Path, program: str, host: Host) -> str:
    """What a program prints in a process of its own, beside the host."""
    done = subprocess.run(
        [str(python), "-W", "error::ResourceWarning", "-c", program],
        cwd=host.config.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_twisted_program_prints_what_the_page_shows(host: Host) -> None:
    """It starts a reactor, and so has a process of its own."""
    program, printed = PROGRAMS["twisted_program"]
    assert masked(run(Path(sys.executable), program, host)) == masked(printed)


@pytest.mark.programme
@pytest.mark.parametrize("name", length(["langchain_agent"], list(FRAMEWORKS)))
def test_a_framework_uses_governed_tools(name: str, host: Host) -> None:
    """
    LangChain on version 1 of the MCP SDK, LlamaIndex on version 2, each in an environment of its own.

    What the host did for it is on record, as the agent, and verifies.
    """
    program, printed = PROGRAMS[name]
    needed = [each for each in PROJECT["dependencies"] if not each.startswith(("twisted", "automat"))]
    python = pypi.environment(name, *FRAMEWORKS[name], *needed) / "python"
    shown = run(python, program, host)
    assert masked(shown) == masked(printed)
    demo = str(host.agtp_json("agent", "show", "demo")["agent_id"])
    told = re.findall(r"[0-9a-f]{64}", shown)
    assert told
    for audit_id in told:
        assert demo in str(host.agtp_json("explain", audit_id))
        assert host.agtp("audit", "get", audit_id).returncode == 0  # Which verifies it.


def test_a_program_that_prints_something_else_is_noticed() -> None:
    """The control: a digit of a result, a line less; identifiers and ports may differ."""
    _, printed = PROGRAMS["first"]
    assert masked(printed) == masked(re.sub(r"[0-9a-f]{12}", "0" * 12, printed).replace(":4480", ":1"))
    assert masked(printed) != masked(printed.replace("187", "188"))
    assert masked(printed) != masked("\n".join(printed.splitlines()[1:]))
