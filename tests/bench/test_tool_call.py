"""The benchmark of tool calls measures what it says: every way of calling ends in a result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.tool_call import compare, processor
from tests.system.hosting import Host, running, sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample."""
    with running(sample(tmp_path_factory.mktemp("bench"))) as host:
        yield host


@pytest.mark.release
def test_every_way_of_calling_is_measured(host: Host) -> None:
    """Directly by the host's peer, by the official SDK's client and by the barest one; and through the host."""
    figures = compare(host, rounds=1, calls=5)
    medians = {name: figure for name, figure in figures.items() if name.endswith("_ms") and "added" not in name}
    assert set(medians) == {"direct_ms", "direct_sdk_client_ms", "direct_bare_client_ms", "through_host_ms"}
    assert all(0 < figure < 5000 for figure in medians.values())
    assert figures["added_ms"] == pytest.approx(figures["through_host_ms"] - figures["direct_ms"], abs=0.002)
    assert figures["ratio_to_sdk_client"] == pytest.approx(
        figures["through_host_ms"] / figures["direct_sdk_client_ms"], abs=0.01
    )


def test_the_processor_time_of_a_call_is_told_by_thread(host: Host) -> None:
    """The reactor's and the others' make up the whole, and both work for each call."""
    figures = processor(host, 4, rounds=1, seconds=0.4)
    assert figures["connections"] == 4 and min(figures["reactor_us"], figures["other_threads_us"]) > 10
    assert figures["us_per_call"] == pytest.approx(figures["reactor_us"] + figures["other_threads_us"], abs=0.2)
