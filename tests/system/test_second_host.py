"""Two hosts on one state directory: the second does not start, and what the first revokes is revoked."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

from agtphost.stores.state_lock import NAME
from tests.system.hosting import free_port, running, sample
from tests.system.raw_link import RawLink
from tests.system.test_start_errors import refuses


def test_the_second_host_is_refused(tmp_path: Path) -> None:
    """With another port it would serve: exit status 1, the first one's number, and the first one serves on."""
    config = sample(tmp_path)
    second = config.with_name("second.toml")
    port = free_port()
    with running(config) as host:
        second.write_text(re.sub(r"port = \d+", f"port = {port}", config.read_text(), count=1))
        said = refuses(second, [f"another host, pid {host.process.pid}, uses this state"])
        assert "Stop it first" in said
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        with RawLink(host) as link:
            assert link.ask("ECHO", "/text", {"text": "still here"}).status == 200
        # Commands that only read, or that the host takes up, go on beside it.
        assert host.agtp("audit", "verify").returncode == 0
        os.kill(host.process.pid, signal.SIGKILL)
        host.process.wait(30)
    assert (host.state / NAME).exists()
    with running(second) as after, RawLink(after) as link:
        assert link.ask("ECHO", "/text", {"text": "taken over"}).status == 200
