"""A7: calls of this package's client while hosts hand over: those that are safe to repeat all succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import postgres
from tests.cluster.client_calls import Results, calling
from tests.cluster.hosts import Cluster, cluster
from tests.conformance.conftest import QUIC
from tests.programmes import length
from tests.system.hosting import until
from tests.system.trail import marks

pytestmark = postgres.needed

STOPS = length(2, 100)


def hand_over(group: Cluster, results: Results, times: int) -> None:
    """Stop the host that serves, so many times, with calls before and after."""
    for _ in range(times):
        before = results.good
        until(lambda before=before: results.good >= before + 10)
        group.take_over()
    before = results.good
    until(lambda: results.good >= before + 10)


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * STOPS)
@pytest.mark.parametrize("quic", [False, True], ids=["tls", "quic"])
def test_no_repeatable_call_fails_at_a_hand_over(tmp_path: Path, quic: bool) -> None:
    """SIGTERM under load: every idempotent and every keyed call ends with 200, and no key runs twice."""
    with cluster(tmp_path, "a", "b", append=QUIC if quic else "") as group:
        group.stand_by("b")
        with calling(group.state("a"), group.hosts["a"].port, 20.0, quic=quic) as results:
            hand_over(group, results, STOPS)
        print(STOPS, "hand-overs:", results.good, "calls,", dict(results.failed), "failed")
        assert not results.failed
        assert [mark for mark, runs in marks(group.config).items() if runs > 1] == []


def test_control_without_seconds_calls_fail(tmp_path: Path) -> None:
    """A client that makes none again notices that the port was closed."""
    with cluster(tmp_path, "a") as group, calling(group.state("a"), group.hosts["a"].port, 0.0) as results:
        until(lambda: results.good >= 10)
        assert group.hosts["a"].stop() == 0
        until(lambda: any(name.startswith("CannotConnect: ") for name in results.failed))
