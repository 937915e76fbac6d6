"""Development hosts with one store that issue the agents which are described next to their ``host.toml``."""

from __future__ import annotations

import signal
from pathlib import Path

from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import Cluster, cluster
from tests.system.hosting import Host, agtp, until
from tests.system.raw_link import RawLink

pytestmark = postgres.needed


def describe_agent(group: Cluster, host: Host) -> None:
    """Describe an agent, and have the host that serves issue it."""
    (group.folder / "agents" / "newcomer.agent.json").write_text('{"name": "newcomer", "description": "New."}')
    host.process.send_signal(signal.SIGHUP)
    until(lambda: "SIGHUP: taken: agents (newcomer)" in host.output)


def test_a_takeover_leaves_out_an_agent_that_the_other_host_has_revoked(tmp_path: Path) -> None:
    """The standby had issued another one of that name: it does not come back, and the host serves all the same."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        first = group.hosts["a"]
        describe_agent(group, first)
        second = group.stand_by("b")
        issued = group.state("b") / "hosted" / "newcomer"
        assert issued.is_dir()
        done = agtp("agent", "revoke", "newcomer", "--reason", "a test", cwd=group.folder, environ=group.environ("a"))
        assert done.returncode == 0, done.stderr
        assert first.stop() == 0
        with RawLink(second.wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        assert "is not admitted: newcomer was the label of an agent that ended on " in second.output
        assert not issued.exists()
        # As the description is still there, a reload says what is wrong with it.
        second.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: nothing changed: " in second.output)
        assert "label-reserved: newcomer" in second.output
        (group.folder / "agents" / "newcomer.agent.json").unlink()
        second.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: " in second.output)
        assert second.output.count("SIGHUP: nothing changed: ") == 1
