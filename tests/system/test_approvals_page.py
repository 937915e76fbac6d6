"""``docs/approvals.rst``, played: what it configures, what it calls, and every line that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from textwrap import dedent

import pytest

from tests import forking
from tests.system.held_calls import decide, fingerprint, held_sample, note, operator
from tests.system.hosting import Host, running, until
from tests.system.pages import DOCS, Player, Step, blocks, playing, statuses_of, steps, steps_of

pytestmark = pytest.mark.slow

PAGE = "approvals.rst"
TOKENS = re.compile(
    r"apr-[0-9a-f]{32}|\b[0-9a-f]{64}\b|\b[0-9a-f-]{36}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
    r"|entry \d+ of \d+|record \d+ of"
)
"""What differs from run to run."""

RETRIED = ("agtp approvals ls", "agtp explain")
"""Looks that are repeated until they show what the page shows: time has to pass."""


class Story:
    """
    Plays the page.

    :param folder: where its host is.
    """

    def __init__(self, folder: Path, player: Player) -> None:
        self._player = player
        self.config = held_sample(folder)
        self._base = self.config.read_text().partition("\n# A real MCP server over stdio.")[0]
        self._server = re.search(r"^command = .*$", self.config.read_text(), re.MULTILINE)
        self._more = ""
        self._names: dict[str, str] = {}
        self.output: list[str] = []
        """What really came, command by command, in the page's own names."""

    def configure(self, block: str) -> None:
        """Another piece of configuration; a table that is there already is replaced."""
        key = fingerprint(self.config.parent / "state" / "registrar.pem")
        assert self._server is not None
        block = re.sub(r"^command = .*$", lambda _: self._server.group(), block, flags=re.MULTILINE)  # type: ignore[union-attr]
        block = re.sub(r'key = "[0-9a-f]{64}"', f'key = "{key}"', block)
        for table in re.findall(r"^\[[a-z]+\]$", block, re.MULTILINE):
            self._more = re.sub(rf"^{re.escape(table)}\n(?:[^\[\n].*\n|\n)*", "", self._more, flags=re.MULTILINE)
        self._more += f"{block}\n\n"
        self.config.write_text(f"{self._base}\n\n{self._more}")

    def play(self, step: Step) -> None:
        """Type one command, and compare."""
        command, shown = step.command, [*step.shown]
        for named, real in self._names.items():
            command = command.replace(named, real)

        def same() -> bool:
            found, output = self._player.type(step, self.config.parent, line=command)
            lines = [line.rstrip() for line in output.splitlines()]
            self._seen = found, lines
            return found == step.status and _matches(shown, lines)

        if command.startswith(RETRIED):
            with suppress(AssertionError):  # Below it is told what is not as the page has it.
                until(lambda: same() or not shown)
        else:
            same()
        found, lines = self._seen
        assert found == step.status, f"{command}\n" + "\n".join(lines)
        assert _matches(shown, lines), f"$ {command}\n" + "\n".join(lines) + "\n-- the page has --\n" + "\n".join(shown)
        for expected, line in zip(shown, lines, strict=False):
            self._names.update(zip(TOKENS.findall(expected), TOKENS.findall(line), strict=False))


def _matches(shown: list[str], lines: list[str]) -> bool:
    """Line by line; what differs from run to run is anything of its kind, and ``...`` ends a line early."""
    if len(shown) != len(lines):
        return False
    for expected, line in zip(shown, lines, strict=True):
        head, dots, rest = expected.partition("...")
        wanted, found = _plain(expected), _plain(line)
        if found != wanted and not (dots and not rest and found.startswith(_plain(head))):
            return False
    return True


def _plain(line: str) -> str:
    return re.sub(r" {2,}", "  ", TOKENS.sub("*", line)).rstrip()


def scenes() -> Iterator[tuple[str, list[Step]]]:
    """Each piece of configuration, with the commands up to the next one."""
    scene: tuple[str, list[Step]] = ("", [])
    statuses = statuses_of(PAGE)
    for block in blocks(PAGE):
        configuration, dollar, story = f"\n{block}".partition("\n$ ")
        if re.match(r"\[\[?[a-z]", configuration.strip()):
            if scene[0]:
                yield scene
            scene = (configuration.strip(), [])
        scene[1].extend(steps_of(f"{dollar}{story}".strip("\n"), statuses))
    yield scene


def test_the_page_is_played(tmp_path: Path) -> None:
    """Held, listed, shown, approved, made and explained; rejected; expired."""
    every = [step for _, scene in scenes() for step in scene]
    assert len(every) >= 15 and {*steps(PAGE)} <= {*every}
    with playing(every) as player:
        story = Story(tmp_path, player)
        for configuration, scene in scenes():
            story.configure(configuration)
            with ExitStack() as stack:
                if scene:
                    stack.enter_context(running(story.config))
                for step in scene:
                    story.play(step)


def test_another_output_is_noticed() -> None:
    """The control: a word more, a line less; and what may differ."""
    key, other = "apr-" + "0" * 32, "apr-" + "f" * 32
    assert _matches([f"approved: {key}"], [f"approved: {other}"])
    assert not _matches([f"approved: {key}"], [f"rejected: {other}"])
    assert not _matches([f"approved: {key}"], [f"approved: {other}", ""])
    assert _matches(["  passed a, b, ..."], ["  passed a, b, c"]) and not _matches(
        ["  passed a, b, ..."], ["  passed b"]
    )


def program() -> str:
    """The Python program of the page."""
    text = (DOCS / PAGE).read_text()
    found = re.search(r"^ {8}import sys\n(?: {8}.*\n|\n)+", text, re.MULTILINE)
    assert found is not None
    return dedent(found.group())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Deleting a note needs the registrar's approval."""
    with running(held_sample(tmp_path_factory.mktemp("program"))) as started:
        yield started


@pytest.mark.parametrize(("status", "end"), [("accepted", "done\n"), ("rejected", "not done: approval-rejected\n")])
def test_the_program_waits(host: Host, tmp_path: Path, status: str, end: str) -> None:
    """It prints which approval it waits for, and what came of it."""
    file = note(host, status)
    script = tmp_path / "delete.py"
    script.write_text(program())
    demo = host.state / "agents" / "demo"
    where = [host.uri, str(host.state / "ca.pem"), str(demo / "agent.pem"), str(demo / "agent.key"), status]
    process = forking.start([sys.executable, str(script), *where], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    with operator(host) as person:
        assert decide(person, host, first.split()[1], status).ok
    output, _ = process.communicate(timeout=60)
    assert (output, file.exists()) == (end, status == "rejected")
