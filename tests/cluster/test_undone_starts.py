"""What a start leaves that failed after its trial, at a takeover: nothing, however often it fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import cluster
from tests.cluster.test_failed_takeovers import happen, port_line
from tests.cluster.test_untaken_files import paths_of
from tests.system.hosting import free_port

pytestmark = postgres.needed

SERVER = Path(__file__).resolve().parents[1] / "adapters/mcp/servers/asking.py"
MORE = """
[quic]
enabled = true

[metrics]
listen = "tcp:{0}:interface=127.0.0.1"

[gateway]
listen = "tcp:{1}:interface=127.0.0.1"

[[mcp.server]]
name = "late"
command = {2}
min_assurance = "certificate"
"""


def test_starts_that_are_undone_leave_nothing(tmp_path: Path) -> None:
    """Three starts fail at the last port, after all else has started: nothing of them stays."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config = group.variant("b")
        text, port = config.read_text(), port_line(config)
        command = json.dumps([sys.executable, "-S", str(SERVER), "stateless"])
        text += MORE.format(free_port(), free_port(), command)
        config.write_text(text)
        ports = [free_port() for _ in range(3)]
        changed = [text.replace(port, f"port = {each}") for each in ports]
        # The files change twice; the third time, the port stays that of before.
        events = [
            [["bind", str(taken)], *(["write", str(config), then] for then in changed[number : number + 1])]
            for number, taken in enumerate(ports, 1)
        ]
        host = group.stand_by("b", config=config, fault="counted", environ=happen(*events))
        config.write_text(changed[0])
        term = group.term()
        assert group.hosts["a"].stop() == 0
        assert host.wait().uri.endswith(f":{port.split()[-1]}"), host.output
        assert paths_of(host) == ["/text"]
        marker = "left by a start: "
        before, *left = [json.loads(line.split(marker)[1]) for line in host.output.splitlines() if marker in line]
        # The connection by which the lease was taken has ended with it.
        assert before["sockets"] == ["unix"]
        assert left == [{**before, "sockets": []}] * 3
        # Each start had a lease of its own, so that what belonged to an earlier one cannot commit.
        assert group.term() == term + 4
