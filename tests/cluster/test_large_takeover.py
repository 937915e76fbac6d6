"""A takeover of a store with many records: what it costs the host that takes over, from the kill until it serves."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import Entry, GroupWriter, Submission
from agtphost.config import load
from agtphost.host.host_loader import load_host
from tests import postgres
from tests.audit.drafting import draft
from tests.cluster.hosts import Cluster, cluster, gone
from tests.cluster.test_untaken_files import paths_of
from tests.programmes import length
from tests.stores.large_store import GROUP, agent
from tests.stores.test_postgres import place_of

pytestmark = postgres.needed

RECORDS, CHAINS = length((4_000, 40), (200_000, 1_000))

MORE_SECONDS = 3.0
"""CPU seconds that reading a large store may add to a start (A4)."""

MORE_OCTETS = 64 * 1024 * 1024


class Cost(NamedTuple):
    """What a takeover took of the host that took over."""

    cpu: float
    seconds: float
    octets: int
    """Its largest resident memory."""


def fill(group: Cluster) -> None:
    """Write records as the stopped host would, with its key, in many chains."""
    loaded = load_host(load(group.config, group.environ("a")), group.environ("a"))
    key, server_id = loaded.key, loaded.config.host.server_id
    assert key is not None
    store: Any = place_of(group.url).open_store(create=False, holder="fill", server_id=server_id)
    tree = TreeKeeper(store, server_id, key)
    states = StateKeeper(store, lambda: [key.public])
    writer = GroupWriter(store, RecordSigner(key), server_id=server_id, tree=tree, states=states)
    writer.load()
    for first in range(0, RECORDS, GROUP):
        entries: list[Entry] = [
            Submission(draft(agent(1 + n % CHAINS), server_id=server_id)) for n in range(first, first + GROUP)
        ]
        writer.write(entries)
        assert not [each.outcome for each in entries if isinstance(each.outcome, Exception)]
    tree.catch_up()
    store.close()


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def take_over(group: Cluster) -> Cost:
    """Kill the host that serves, and return what the other one took until it served."""
    host = group.stand_by("b")
    process = host.process.pid
    before, began = cpu_seconds(process), time.monotonic()
    group.hosts["a"].process.send_signal(signal.SIGKILL)
    assert gone(group.hosts["a"]) == -signal.SIGKILL
    host.wait()
    seconds, cpu = time.monotonic() - began, cpu_seconds(process) - before
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None and paths_of(host) == ["/text"]
    return Cost(cpu, seconds, int(found[1]) * 1024)


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.timeout(1200)
def test_many_records_add_little_to_a_takeover(tmp_path: Path) -> None:
    """Heads, states and the end of the tree are read, and not the records."""
    costs = []
    for name in ("small", "large"):
        with cluster(tmp_path / name, "a", "b") as group:
            if name == "large":
                assert group.hosts["a"].stop() == 0
                fill(group)
                group.start("a").wait()
            costs.append(take_over(group))
            print(f"{name}: {costs[-1].cpu:.2f} s of CPU, {costs[-1].seconds:.1f} s, {costs[-1].octets >> 20} MiB")
    small, large = costs
    assert large.cpu - small.cpu < MORE_SECONDS
    assert large.octets - small.octets < MORE_OCTETS
