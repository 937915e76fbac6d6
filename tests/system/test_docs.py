"""The pages under docs/ do what they say: their commands are run as they stand there, their configuration is read."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from agtphost.cli.root import agtp as command
from tests.rows import each_row
from tests.system.hosting import Host, free_port, newcomer, running, sample

DOCS = Path(__file__).resolve().parents[2] / "docs"
VERIFIER = DOCS.parent / "packages" / "agtp-verify" / "agtp_verify.py"
PAGES = sorted(page.name for page in DOCS.glob("*.rst"))


PLAYED = {"approvals.rst", "client.rst", "runbook.rst", "first-minutes.rst", "grants.rst", "journeys.rst"}
"""Pages with tests of their own: their names are in those of ``test_*_page.py``, or the whole of one's."""


@dataclass(frozen=True)
class Step:
    """One command of a page, the exit status it should have, and what its output should show, in order."""

    command: str
    status: int
    shown: tuple[str, ...]


def blocks(page: str) -> list[str]:
    """The literal blocks of a page, without their indentation."""
    text = (DOCS / page).read_text()
    return [dedent(block).strip("\n") for block in re.findall(r"::\n\n((?:(?: {4}.*)?\n)+?)(?=\S|\Z)", text + "\n")]


def steps(page: str) -> list[Step]:
    """The commands of a page: ``$ command  # status``, then lines that its output has."""
    found: list[Step] = []
    for block in blocks(page):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                command, _, status = line[2:].partition("  # ")
                found.append(Step(command, int(status or 0), ()))
            elif found and block.startswith("$ ") and line:
                last = found.pop()
                found.append(Step(last.command, last.status, (*last.shown, line.strip())))
    return found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host with a page, for all pages."""
    page = f'\n[admin]\nlisten = "ssl:{free_port()}:interface=127.0.0.1"\n'
    with running(sample(tmp_path_factory.mktemp("docs"), append=page)) as started:
        yield started


PASSWORD = "a password\n" * 2
"""What a person types who is asked for a new one: without a terminal, openssl reads it from the standard input."""


def shell(folder: Path, command: str) -> tuple[int, str]:
    """Run one line as a person types it."""
    verifier = folder / "bin" / "agtp-verify"
    if not verifier.exists():
        # A distribution of its own, which tests/supply/test_verifier.py installs; here, as it lies in the source.
        verifier.parent.mkdir(exist_ok=True)
        verifier.write_text(f'#!/bin/sh\nexec {sys.executable} -I {VERIFIER} "$@"\n')
        verifier.chmod(0o755)
    environment = newcomer(folder / "home", verifier.parent)
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        env=environment,
        input=PASSWORD if "pkcs12 -export" in command else "",
        start_new_session=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_there_are_pages() -> None:
    """And most of them have commands."""
    assert len(PAGES) >= 2
    assert sum(bool(steps(page)) for page in PAGES) >= 1


@each_row("page", [page for page in PAGES if steps(page) and page not in PLAYED])
def test_the_commands_of_a_page(page: str, host: Host) -> None:
    """One after the other, in the deployment's directory."""
    for step in steps(page):
        status, output = shell(host.config.parent, step.command)
        assert status == step.status, f"{step.command}\n{output}"
        at = 0
        for part in step.shown:
            at = output.find(part, at)
            assert at >= 0, f"{part!r} is not shown by\n{step.command}\n{output}"


def snippets() -> list[tuple[str, str]]:
    """Every block that is a piece of host.toml."""
    return [(page, block) for page in PAGES for block in blocks(page) if re.match(r"\[\[?[a-z]", block)]


def checked(file: Path) -> Result:
    """``agtp check``, in this process: there are dozens of pieces."""
    return CliRunner().invoke(command, ["check", str(file)], prog_name="agtp")


@pytest.mark.parametrize(("page", "snippet"), snippets())
def test_every_piece_of_configuration_is_read(page: str, snippet: str, tmp_path: Path) -> None:
    """``agtp check`` knows each section and key that a page names; what it finds wrong is never a name."""
    file = tmp_path / "host.toml"
    file.write_text(f'[host]\nserver_id = "localhost"\nprofile = "development"\n\n{snippet}\n')
    said = checked(file)
    assert "not a known" not in said.output and "unknown" not in said.output, said.output
    key = re.findall(r"^([a-z_]+) =", snippet, flags=re.MULTILINE)[-1]
    file.write_text(file.read_text().replace(f"\n{key} =", f"\n{key}x ="))
    broken = checked(file)
    assert broken.exit_code == 2 and f"{key}x" in broken.output


def test_control_an_output_that_is_not_shown_is_noticed(host: Host) -> None:
    """The comparison fails where a page promises what no command says."""
    status, output = shell(host.config.parent, "agtp can demo DISCOVER /methods")
    assert status == 0 and "no: demo may not" not in output
