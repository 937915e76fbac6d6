"""The programs of docs/client.rst and docs/frameworks.rst print what the pages show."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from agtphost.identity.provisioning import provision_development
from tests import pypi
from tests.docs.test_commands import ROOT
from tests.programmes import length
from tests.supply.test_supply import PROJECT
from tests.system.held_calls import SETTINGS, fingerprint
from tests.system.hosting import Host, running, sample
from tests.system.pages import playing, steps

PAGES = ("client.rst", "frameworks.rst")
TEXT = "".join((ROOT / "docs" / page).read_text() + "\n" for page in PAGES)
FOUND = re.findall(
    r"``(\w+)\.py``::\n\n((?:(?: {4}.*)?\n)+)It prints::\n\n    \$ python \1\.py\n((?:(?: {4}.*)?\n)+)", TEXT
)
STEPS = [step for page in PAGES for step in steps(page)]
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


def test_the_pages_have_programs() -> None:
    """Each program that prints something is found."""
    assert len(PROGRAMS) == TEXT.count("It prints::") == 11
    assert [step.command for step in STEPS] == [f"python {name}.py" for name in PROGRAMS]
    assert set(FRAMEWORKS) < set(PROGRAMS)


def run(name: str, host: Host, environ: dict[str, str] | None = None) -> str:
    """Type the command of a program, which lies beside the host; what it says is what the page shows."""
    program, printed = PROGRAMS[name]
    (host.config.parent / f"{name}.py").write_text(program)
    (step,) = [step for step in STEPS if step.command == f"python {name}.py"]
    with playing([step]) as player:
        status, said = player.type(step, host.config.parent, environ=environ)
    assert status == 0, said
    assert masked(said) == masked("\n".join(step.shown)) == masked(printed)
    return said


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in FRAMEWORKS])
def test_a_program_prints_what_the_page_shows(name: str, host: Host) -> None:
    """Typed where the host's host.toml is."""
    run(name, host)


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize("name", length(["langchain_agent"], list(FRAMEWORKS)))
def test_a_framework_uses_governed_tools(name: str, host: Host) -> None:
    """
    LangChain on version 1 of the MCP SDK, LlamaIndex on version 2, each in an environment of its own.

    What the host did for it is on record, as the agent, and verifies.
    """
    needed = [each for each in PROJECT["dependencies"] if not each.startswith(("twisted", "automat"))]
    python = pypi.environment(name, *FRAMEWORKS[name], *needed) / "python"
    # Where the host is installed there is a package; here there is its tree.
    path = f"{python.parent}:/usr/bin:/bin"
    shown = run(name, host, {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"})
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
