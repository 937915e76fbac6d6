"""The benchmark of tool calls measures what it says: every way of calling ends in a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.tool_call import compare
from tests.system.hosting import running, sample

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_every_way_of_calling_is_measured(tmp_path: Path) -> None:
    """Directly by the host's peer, by the official SDK's client and by the barest one; and through the host."""
    with running(sample(tmp_path)) as host:
        figures = compare(host, rounds=1, calls=5)
    medians = {name: figure for name, figure in figures.items() if name.endswith("_ms") and "added" not in name}
    assert set(medians) == {"direct_ms", "direct_sdk_client_ms", "direct_bare_client_ms", "through_host_ms"}
    assert all(0 < figure < 5000 for figure in medians.values())
    assert figures["added_ms"] == pytest.approx(figures["through_host_ms"] - figures["direct_ms"], abs=0.002)
    assert figures["ratio_to_sdk_client"] == pytest.approx(
        figures["through_host_ms"] / figures["direct_sdk_client_ms"], abs=0.01
    )
