"""A12: the README's story on a PostgreSQL with a host that stands by, and takeovers between its steps."""

from __future__ import annotations

import signal
from itertools import cycle
from pathlib import Path

import pytest

from tests import postgres
from tests.cluster.hosts import cluster
from tests.programmes import length
from tests.system.hosting import agtp, sample
from tests.system.test_readme import STORY

pytestmark = [postgres.needed, pytest.mark.slow]

STEPS = length((STORY[1], STORY[2], STORY[5]), STORY[1:])
"""The suite has a list, a verified call, and the verification of all records."""

TAKEOVERS = length((1,), tuple(range(1, len(STORY) - 1)))
"""Numbers of the steps before which another host takes over; with ``--programmes`` between each two."""


def make(folder: Path, append: str) -> Path:
    return sample(folder, append=append, eager=True)


@pytest.mark.programme
@pytest.mark.timeout(600)
def test_the_story_is_the_same_with_takeovers_between_its_steps(tmp_path: Path) -> None:
    """
    Each command ends as on one host with SQLite: a verified call, refusals, the trail, a suspension, and 410.

    Hand-overs and kills take turns. ``agtp up --hosts`` itself is in test_trial_hosts.py.
    """
    with cluster(tmp_path, "east", "west", make=make) as group:
        group.stand_by("west")
        term, ways, issued_at = group.term(), cycle((signal.SIGTERM, signal.SIGKILL)), ""
        for number, (line, status, parts) in enumerate(STEPS):
            if number in TAKEOVERS:
                group.take_over(next(ways))
            serving = group.names[0]
            if " new " in line:
                issued_at = serving
            # Commands are typed at the host that serves; an agent calls from where its key is.
            machine = issued_at if "--as" in line else serving
            done = agtp(*line.split()[1:], cwd=group.folder, environ=group.environ(machine))
            output = done.stdout + done.stderr
            assert done.returncode == status, f"{line}\n{output}"
            assert [part for part in parts if part not in output] == [], f"{line}\n{output}"
        assert group.term() == term + len(TAKEOVERS)
