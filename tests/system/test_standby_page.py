"""The commands of the page on standby hosts: two hosts of this machine play two machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import postgres
from tests.cluster.hosts import Cluster, cluster
from tests.system.hosting import free_port, until
from tests.system.pages import playing, shows, steps

PAGE = "standby.rst"

TRY_IT = 6
"""Commands of its first section, which tests/cluster/test_trial_hosts.py types."""

pytestmark = postgres.needed


class Machine:
    """A machine with one of the hosts, on which the commands are typed."""

    def __init__(self, group: Cluster, name: str) -> None:
        self._group = group
        self.name = name
        self.environ = group.environ(name)
        self.probes = free_port()
        self._config = group.variant(name)
        section = f'\n[metrics]\nlisten = "tcp:{self.probes}:interface=127.0.0.1"\n'
        self._config.write_text(self._config.read_text() + section)
        self.folder = group.folder.parent / name
        self.folder.mkdir()
        for place in group.folder.iterdir():
            (self.folder / place.name).symlink_to(place)
        (self.folder / "host.toml").unlink()
        self._config.rename(self.folder / "host.toml")
        self._config = self.folder / "host.toml"

    def control(self, verb: str) -> None:
        """Do what systemctl does, which waits until the host says that it is ready, as a standby does too."""
        if verb == "stop":
            assert self._group.hosts[self.name].stop() == 0
        else:
            host = self._group.start(self.name, config=self._config)
            until(lambda: "agtphost standby" in host.output or host.port or host.process.poll() is not None)
            assert host.process.poll() is None, host.output


CONTROLLED = ("east", "west", "east", "east")
"""Whose service each ``systemctl`` of the page is about."""


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """Each ends as the page says; after ``systemctl stop`` the other machine is looked at."""
    with cluster(tmp_path, "east", "west") as group:
        assert group.hosts["east"].stop() == 0
        # That start made the keys; the page begins with a store that no host has used.
        postgres.server().run("UPDATE store SET term = 0", url=group.url)
        machines = {name: Machine(group, name) for name in ("east", "west")}
        here, controlled = machines["east"], iter(CONTROLLED)
        with playing(steps(PAGE)[TRY_IT:]) as player:
            for step in steps(PAGE)[TRY_IT:]:
                if not step.command.startswith("systemctl "):
                    line = step.command.replace("9480", str(here.probes))
                    shows(step, *player.type(step, here.folder, line=line, environ=here.environ))
                    continue
                here = machines[next(controlled)]
                verb, _ = player.system(step)
                here.control(verb)
                if verb == "stop":
                    (here,) = (each for each in machines.values() if each is not here)
                    group.hosts[here.name].wait()
