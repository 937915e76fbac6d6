"""docs/emergency.rst and docs/operators.rst, played on real hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agtphost.handlers.operators import NEEDED, OperatorRole
from tests.system.hosting import Host, agtp, free_port, running, sample
from tests.system.pages import DOCS, Step, playing, shows, steps


def sections(page: str) -> dict[str, list[Step]]:
    """The commands of a page by the titles that they stand under."""
    parts = re.split(r"^(.+)\n-{4,}\n", (DOCS / page).read_text(), flags=re.MULTILINE)
    every, found = steps(page), {}
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        count = len(re.findall(r"^    \$ ", text, flags=re.MULTILINE))
        found[title], every = every[:count], every[count:]
    assert not every
    return {title: commands for title, commands in found.items() if commands}


EMERGENCY = sections("emergency.rst")


class Production:
    """A production host with an agent, as ``agtp init`` and ``agtp agent new`` make them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "agtphost"
        words = ("--production", "--server-id", "localhost", "--port", str(free_port()))
        assert agtp("init", str(self.folder), *words).returncode == 0
        made = agtp("agent", "new", "demo", "--owner", "acme", "--scope", "documents:query", cwd=self.folder)
        assert made.returncode == 0, made.stderr
        self.away = folder / "laptop"
        self.away.mkdir()
        for name, kept in (("ca.pem", "ca.pem"), ("registrar.pem", "admin.pem"), ("registrar.key", "admin.key")):
            shutil.copy(self.folder / "state" / name, self.away / kept)
        self.config = self.folder / "host.toml"
        self.sound = self.config.read_text()

    @property
    def agent_id(self) -> str:
        document = self.folder / "state" / "agents" / "demo" / "document.json"
        return str(json.loads(document.read_text())["agent_id"])


def nothing(host: Production) -> None:
    """The host is as it was made."""


def break_file(host: Production) -> None:
    host.config.write_text(f"{host.sound}\n[metrics\nlisten = tcp:9\n")


def fill_disk(host: Production) -> None:
    """More must stay free than there is, which is what a full disk is to the host."""
    free = os.statvfs(host.folder)
    floor = free.f_bavail * free.f_frsize * 4
    host.config.write_text(f"{host.sound}\n[store]\nfree_space_floor = {floor}\n")


SITUATIONS: dict[str, tuple[Callable[[Production], None], Callable[[Production], None]]] = {
    "On the host's machine": (nothing, nothing),
    "While host.toml has faults": (nothing, break_file),
    "While the disk is full": (fill_disk, nothing),
    "From another machine": (nothing, nothing),
    "Afterwards": (nothing, nothing),
}
"""What happens before the host starts, and while it runs."""


@pytest.mark.parametrize("title", SITUATIONS)
def test_an_agent_is_stopped(tmp_path: Path, title: str) -> None:
    """As the page says, in each situation."""
    made = Production(tmp_path)
    before, during = SITUATIONS[title]
    before(made)
    host = Host(made.config).wait()
    try:
        during(made)
        if title == "Afterwards":
            assert host.agtp("agent", "deactivate", "demo").returncode == 0
        with playing(EMERGENCY[title]) as player:
            for step in EMERGENCY[title]:
                line = step.command.replace("AGENT_ID", made.agent_id).replace("agtp://HOST", host.uri)
                folder = made.away if title == "From another machine" else made.folder
                shows(step, *player.type(step, tmp_path, line=f"cd {folder} && {line}"))
                reinstated = any("reinstate" in each.command for each in EMERGENCY[title])
                if not reinstated and "deactivate" in step.command:
                    made.config.write_text(made.sound)
                    assert host.agtp("agent", "reinstate", "demo").returncode in (0, 1)
                    during(made)
    finally:
        assert host.stop() == 0


HIDING = {
    "agents": ('agents = "agents"', "agents = 5"),
    "identity": ("[identity]", "[identity"),
    "host": ("[host]", "[host"),
    "store": ("[endpoints]", "[store]\nur1 = 'sqlite:other.sqlite3'\n[endpoints]"),
}
"""Faults that hide where the files or the states of agents are."""


def test_a_right_is_given_back_while_a_fault_hides_the_files_of_agents(tmp_path: Path) -> None:
    """The running host is asked instead; with these faults ``allow``, ``show`` and ``ls`` named the fault and ended."""
    with running(sample(tmp_path)) as host:
        sound = host.config.read_text()
        assert host.agtp("agent", "limit", "demo", "files.list_files", "--yes").returncode == 0
        for name, fault in HIDING.items():
            assert host.agtp("agent", "deactivate", "demo").returncode == 0
            host.config.write_text(sound.replace(*fault))
            shown = host.agtp("agent", "show", "demo", "--json")
            assert json.loads(shown.stdout)["status"] == "suspended", (name, shown.stderr)
            assert "the running host lists these agents" in shown.stderr
            listed = {each["name"]: each["status"] for each in host.agtp_json("agent", "ls")}
            assert listed == {"demo": "suspended", "librarian": "active"}, name
            assert host.agtp("agent", "reinstate", "demo").returncode == 0
            given = host.agtp("agent", "allow", "demo", "files.read_file")
            assert given.returncode == 0 and "demo has these rights" in given.stdout, (name, given.stderr)
            scope = host.agtp("agent", "allow", "demo", f"weather:{name}", "--yes")
            assert scope.returncode == 0, (name, scope.stderr)
            host.config.write_text(sound)
            assert host.agtp("agent", "ungrant", "demo", "files.read_file").returncode == 0


def test_every_situation_is_played() -> None:
    """No section of the page is left out."""
    assert set(EMERGENCY) == set(SITUATIONS)


@pytest.fixture(scope="module")
def development(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("operators")
    assert agtp("init", str(folder / "host"), "--port", str(free_port())).returncode == 0
    host = Host(folder / "host" / "host.toml").wait()
    yield host
    host.stop()


def test_the_operators_page_is_true(development: Host, tmp_path: Path) -> None:
    """A person is added, does what the role says, and is removed."""
    wanted = steps("operators.rst")
    with playing(wanted) as player:
        for step in wanted:
            line = f"cd {development.config.parent} && {step.command}"
            shows(step, *player.type(step, tmp_path, line=line))


def test_the_page_has_the_table_of_roles() -> None:
    """Each action stands behind its role."""
    text = " ".join((DOCS / "operators.rst").read_text().split())
    rows = dict(re.findall(r"\* - ``(viewer|approver|administrator)`` - (.*?)(?= \* - | An administrator )", text))
    for action, role in NEEDED.items():
        assert action.value in rows[role.label], action
    assert set(rows) == {role.label for role in OperatorRole}
