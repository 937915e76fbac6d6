"""A12: the conformance cases have the same results with a takeover between them as on one host with SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.conformance.cases import every_case
from agtphost.conformance.runner import CaseResult, Plan, run
from agtphost.conformance.target import connect
from tests import postgres
from tests.cluster.hosts import cluster
from tests.conformance.test_runner import access_to
from tests.programmes import length
from tests.system.hosting import Host, running, sample

pytestmark = [postgres.needed, pytest.mark.slow]

AREAS = length(("identity.*", "lifecycle.*", "audit.*", "idempotency.*"), ())
"""Patterns of cases; without any, all of them."""

TAKEOVERS = length(1, 12)


def make(folder: Path, append: str) -> Path:
    return sample(folder, append=append, eager=True)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Host]:
    """A host with SQLite."""
    with running(sample(tmp_path / "alone", eager=True)) as host:
        yield host


def outcomes(results: list[CaseResult]) -> dict[str, str]:
    return {result.case.id: result.outcome.value for result in results}


@pytest.mark.programme
@pytest.mark.timeout(600)
def test_cases_pass_across_a_takeover_as_they_do_on_one_host(tmp_path: Path, alone: Host) -> None:
    """The hosts hand over between two cases; with --programmes twelve times, over all cases."""
    plan = Plan(only=AREAS)
    with connect(access_to(alone)) as target:
        expected = outcomes(run(target, every_case(), plan, lambda result: None))
    assert len(expected) >= 20
    every = max(1, len(expected) // (TAKEOVERS + 1))
    with cluster(tmp_path / "two", "east", "west", make=make) as group:
        group.stand_by("west")
        term, done = group.term(), 0

        def report(result: CaseResult) -> None:
            nonlocal done
            done += 1
            if done % every == 0 and done // every <= TAKEOVERS:
                group.take_over()

        with connect(access_to(group.hosts["east"])) as target:
            found = outcomes(run(target, every_case(), plan, report))
        assert group.term() == term + TAKEOVERS
    assert found == expected
