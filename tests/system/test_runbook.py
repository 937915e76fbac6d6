"""docs/runbook.rst, played: each disaster befalls a production host, and the page's commands bring it back."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.stores import upgrade
from tests.system.hosting import Host, agtp, free_port
from tests.system.pages import DOCS, Player, Step, playing, shows, steps


def sections() -> dict[str, list[Step]]:
    """The commands of the page by the titles that they stand under."""
    parts = re.split(r"^(.+)\n-{4,}\n", (DOCS / "runbook.rst").read_text(), flags=re.MULTILINE)
    every, found = steps("runbook.rst"), {}
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        count = len(re.findall(r"^    \$ ", text, flags=re.MULTILINE))
        found[title], every = every[:count], every[count:]
    assert not every
    return found


SECTIONS = sections()


class Machine:
    """A deployment and its service: ``systemctl`` of the page is played here, everything else is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "agtphost"
        for name in ("backups", "safe", "elsewhere"):
            (folder / name).mkdir()
        words = ("--production", "--server-id", "localhost", "--port", str(free_port()))
        assert agtp("init", str(self.folder), *words).returncode == 0
        config = self.folder / "host.toml"
        config.write_text(config.read_text().replace("[audit]\n", '[audit]\nwitness = "../elsewhere/checkpoint.txt"\n'))
        self.host: Host | None = None
        self.start()

    def start(self) -> None:
        self.host = Host(self.folder / "host.toml").wait()

    def stop(self) -> None:
        assert self.host is not None and self.host.stop() == 0
        self.host = None

    def play(self, player: Player, step: Step, disaster: Callable[[Machine], None]) -> None:
        """One command; after a stop the disaster happens."""
        if not step.command.startswith("systemctl "):
            line = f"cd {self.folder} && {step.command}"
            shows(step, *player.type(step, self.folder.parent, line=line))
            return
        word, service = player.system(step)
        assert service == "agtphost"
        if word in ("stop", "restart"):
            self.stop()
            if word == "stop":
                disaster(self)
        if word in ("start", "restart"):
            self.start()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("runbook"))
    yield made
    if made.host is not None:
        made.stop()


def lose_store(machine: Machine) -> None:
    for file in (machine.folder / "state").glob("agtphost.sqlite3*"):
        file.unlink()


def lose_everything(machine: Machine) -> None:
    shutil.rmtree(machine.folder)
    machine.folder.mkdir()
    shutil.rmtree(machine.folder.parent / "elsewhere")
    (machine.folder.parent / "elsewhere").mkdir()


def lose_key(machine: Machine) -> None:
    (machine.folder / "state" / "signing.key").unlink()


def go_back(machine: Machine) -> None:
    """The store is of a later program's schema."""
    with closing(sqlite3.connect(machine.folder / "state" / "agtphost.sqlite3")) as database:
        database.execute(f"PRAGMA user_version={upgrade.latest() + 1}")


DISASTERS: dict[str, Callable[[Machine], None]] = {
    "Back up": lambda machine: None,
    "A lost store": lose_store,
    "A lost disk, or machine": lose_everything,
    "A lost signing key": lose_key,
    # What the clock and the disk do is in tests.system.test_clock and tests.system.test_disk_at_start.
    "A clock that was wrong": lambda machine: None,
    "A full disk": lambda machine: None,
    "An upgrade, and back": go_back,
}


@pytest.mark.parametrize("title", DISASTERS)
def test_a_disaster_is_overcome(machine: Machine, title: str) -> None:
    """As the page says, one after the other: what is made in one section is used in the next."""
    with playing(SECTIONS[title]) as player:
        for step in SECTIONS[title]:
            machine.play(player, step, DISASTERS[title])


def test_nothing_on_the_page_is_left_out() -> None:
    """Each section has its disaster; the last one leaves a host that does not start, whatever is asked of it."""
    assert set(SECTIONS) == set(DISASTERS) and all(SECTIONS.values())
