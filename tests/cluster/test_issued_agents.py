"""Development hosts with one store that issue the agents which are described next to their ``host.toml``."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import Cluster, cluster
from tests.cluster.test_untaken_files import CLIENT, write_token
from tests.system.hosting import Host, agtp, free_port, until
from tests.system.raw_link import RawLink

pytestmark = postgres.needed

TOKEN = "a" * 40


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
        write_token(group.folder, TOKEN)
        gateway, config = free_port(), group.variant("b")
        config.write_text(config.read_text() + CLIENT % (gateway, "newcomer"))
        second = group.stand_by("b", config=config)
        issued = group.state("b") / "hosted" / "newcomer"
        assert issued.is_dir()
        done = agtp("agent", "revoke", "newcomer", "--reason", "a test", cwd=group.folder, environ=group.environ("a"))
        assert done.returncode == 0, done.stderr
        assert first.stop() == 0
        with RawLink(second.wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        answer = httpx.get(f"http://127.0.0.1:{gateway}/agents", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 401
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
