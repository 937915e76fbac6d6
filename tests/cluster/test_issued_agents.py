"""Development hosts with one store that issue the agents which are described next to their ``host.toml``."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import httpx

from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import Cluster, cluster
from tests.cluster.test_untaken_files import CLIENT, shown, write_token
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


def test_cluster_status_shows_hosts_that_issued_different_agents(tmp_path: Path) -> None:
    """After a takeover the label would be another agent's; with the files of the other host, it is the same one."""

    def differing(group: Cluster) -> list[str] | None:
        hosts = json.loads(agtp("cluster", "status", "--json", cwd=group.folder).stdout)["hosts"]
        found: list[list[str]] = [host["differs"] for host in hosts if host["name"] == "b"]
        return found[0] if found else None

    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        describe_agent(group, group.hosts["a"])
        host = group.stand_by("b")
        until(lambda: differing(group) == ["issued agents"])
        assert host.stop() == 0
        for name in ("hosted", "agents"):
            shutil.copytree(group.state("a") / name, group.state("b") / name, dirs_exist_ok=True)
        group.stand_by("b")
        until(lambda: differing(group) == [])


JWKS = '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'

SPEAKING = """
[gateway]
listen = "tcp:{0}:interface=127.0.0.1"
agent = "newcomer"
[mcp.front]
listen = "tcp:{1}:interface=127.0.0.1"
anonymous = "newcomer"
[a2a.front]
listen = "tcp:{2}:interface=127.0.0.1"
agent_id = "newcomer"
tokens = ["file:token"]
[[a2a.front.agent]]
name = "newcomer"
[[a2a.front.agent]]
name = "librarian"
[registry]
listen = "tcp:{3}:interface=127.0.0.1"
agent = "newcomer"
[notify.groups]
night = ["newcomer"]
[[policies.oauth.issuer]]
expected_issuer = "https://id.test"
expected_audience = ["here"]
jwks = "jwks.json"
"""
"""Every key that names an agent in whose name others call, or that answers."""


def test_a_takeover_serves_without_the_bindings_of_agents_that_are_left_out(tmp_path: Path) -> None:
    """Clients without an agent of their own are refused, whatever they show; its name leads to no other agent."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        first = group.hosts["a"]
        describe_agent(group, first)
        write_token(group.folder, TOKEN)
        (group.folder / "jwks.json").write_text(JWKS)
        ports = [free_port() for _ in range(4)]
        config = group.variant("b", ("[identity]\n", '[identity]\nserver_names = {"newcomer.test" = "newcomer"}\n'))
        config.write_text(config.read_text() + SPEAKING.format(*ports))
        second = group.stand_by("b", config=config)
        done = agtp("agent", "revoke", "newcomer", "--reason", "a test", cwd=group.folder, environ=group.environ("a"))
        assert done.returncode == 0, done.stderr
        assert first.stop() == 0
        with RawLink(second.wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        gateway, mcp, front, registry = (f"http://127.0.0.1:{port}" for port in ports)
        shows = [{}, {"Authorization": f"Bearer {TOKEN}"}, {"Authorization": "Bearer e30.e30.e30"}]
        for fields in shows:
            assert httpx.get(f"{gateway}/agents", headers=fields).status_code == 401
            assert httpx.post(f"{mcp}/mcp", json={}, headers=fields).status_code == 401
            assert httpx.post(f"{front}/message:send", json={}, headers=fields).status_code == 401
            assert httpx.post(f"{registry}/agents", json={}, headers=fields).status_code in (401, 403)
        assert "newcomer" not in httpx.get(f"{front}/.well-known/agent-card.json").text
        assert httpx.get(f"{front}/agents/newcomer/.well-known/agent-card.json").status_code == 404
        notes = shown(group, "b", config)[0]
        assert any("newcomer" in note and "reserved" in note for note in notes)
        # Once nothing names it any more, a reload takes the files, but for the fronts, which wait for a restart.
        (group.folder / "agents" / "newcomer.agent.json").unlink()
        text = re.sub(r'(?m)^server_names = .*\n|^\[\[a2a.front.agent]]\nname = "newcomer"\n', "", config.read_text())
        config.write_text(text.replace("newcomer", "demo"))
        second.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: " in second.output or "SIGHUP: nothing" in second.output)
        (note,) = shown(group, "b", config)[0]
        assert "[a2a] front, [mcp] front" in note and "restart this host" in note
        assert second.stop() == 0
        group.start("b", config=config).wait()
        assert shown(group, "b", config)[0] == []
