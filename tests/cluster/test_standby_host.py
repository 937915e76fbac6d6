"""A real host that stands by: what it answers, what it reports, and when it refuses to take over."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import httpx

from agtphost import __version__
from agtphost.identity.keys import SigningKey
from agtphost.stores.lease import LONGEST_LEASE
from tests import postgres
from tests.cluster.hosts import cluster, gone, probe, probed
from tests.system.hosting import Host, agtp, free_port, until
from tests.system.raw_link import RawLink

pytestmark = postgres.needed

# Hosts here wait for a lease that is given up. One that ends too soon, because a busy machine delayed its holder,
# would let the other host take over; LONGEST_LEASE keeps that from happening.


def test_a_caller_is_told_that_another_host_may_take_over(tmp_path: Path) -> None:
    """In the gap nothing listens; so it is with the first command, and with one that knows the configuration."""
    with cluster(tmp_path, "a") as group:
        assert group.hosts["a"].stop() == 0
        for _ in range(2):
            refused = agtp("tools", "list", cwd=group.folder, environ=group.environ("a"))
            assert refused.returncode == 3 and "nothing listens there" in refused.stderr
            assert "Another host may be taking over" in refused.stderr and "agtp cluster status" in refused.stderr


def test_a_standby_says_who_serves(tmp_path: Path) -> None:
    """By its probes, its ready line, the service manager and ``agtp status``; the AGTP port is closed."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config, probes = probed(group, "b")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        notices = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        host = group.stand_by("b", config=config, environ=notices)
        assert "agtphost standby: a serves, with term 1 (server localhost); this host, b, takes over" in host.output
        told: list[str] = []
        # The watchdog may be told before the first look at the lease is over.
        until(lambda: told.append(manager.recv(4096).decode()) or told[-1] != "WATCHDOG=1")
        assert told[-1] == "READY=1\nSTATUS=standby, a serves"
        assert manager.recv(4096).decode() == "STATUS=standby, a serves\nWATCHDOG=1"
        seen = {"status": "standby", "serving": "a", "term": 1}
        assert probe(f"{probes}/readyz") == (503, seen)
        assert probe(f"{probes}/readyz?standby=ok") == (200, seen)
        assert probe(f"{probes}/healthz") == (200, {"status": "ok"})
        assert "agtphost_ready 0.0" in httpx.get(f"{probes}/metrics").text
        assert httpx.get(f"{probes}/else").status_code == 404
        assert httpx.post(f"{probes}/readyz").status_code == 405
        status = agtp("status", "--json", "--config", str(config), environ=group.environ("b"))
        assert status.returncode == 0, status.stderr
        fields = json.loads(status.stdout)
        assert (fields["state"], fields["serving"], fields["term"]) == ("standby", "a", 1)
        assert fields["since"] and fields["serving_at"].endswith(str(group.state("a")))
        shown = agtp("status", "--config", str(config), environ=group.environ("b"))
        assert shown.returncode == 0 and "state   standby\n" in shown.stdout and "serves  a, at " in shown.stdout
        leading = agtp("status", "--json", cwd=group.folder, environ=group.environ("a"))
        lacks = "has no synchronous replica, so a failover can lose acknowledged records"
        assert json.loads(leading.stdout)["state"] == "ready" and lacks in leading.stdout
        assert lacks in shown.stderr and lacks in group.hosts["a"].output
        assert group.hosts["a"].stop() == 0
        host.wait()
        until(lambda: "STATUS=serving at agtp://" in manager.recv(4096).decode())
        assert probe(f"{probes}/readyz?standby=ok") == (200, {"status": "ready"})
        with RawLink(host) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200


def test_a_standby_that_stops_takes_nothing_with_it(tmp_path: Path) -> None:
    """SIGTERM ends it with 0, and the other host keeps the lease. What could keep it from that was reported."""
    server = postgres.server()
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        server.run("ALTER ROLE agtp SET track_activities = off")
        try:
            host = group.stand_by("b")
            until(lambda: "has track_activities off for the role agtp" in host.output)
            shown = agtp("store", "status", cwd=group.folder, environ=group.environ("b"))
            assert "has track_activities off for the role agtp" in shown.stderr
        finally:
            server.run("ALTER ROLE agtp RESET track_activities")
        assert host.stop() == 0
        assert group.term() == 1
        group.require_alive("a")
        shown = agtp("status", cwd=group.folder, environ=group.environ("b"))
        assert shown.returncode == 0, "the port is that of the other host, on this machine"
        config = group.variant("b")
        shown = agtp("status", "--config", str(config), environ=group.environ("b"))
        assert shown.returncode == 3 and "state          not running\n" in shown.stdout, shown.stdout
        assert "serves         a\n" in shown.stdout
        assert group.hosts["a"].stop() == 0


def test_a_standby_issues_no_agent_that_it_cannot_admit(tmp_path: Path) -> None:
    """``--admit`` and ``client connect`` say where the host is that serves, and make nothing."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        group.stand_by("b")
        before = sorted(tmp_path.rglob("*.pem"))
        (tmp_path / "vs").mkdir()
        for words in (
            ("agent", "new", "visitor", "--admit"),
            ("client", "connect", "vscode", "--file", str(tmp_path / "vs" / "mcp.json")),
        ):
            refused = agtp(*words, cwd=group.folder, environ=group.environ("b"))
            assert refused.returncode == 2, refused.stdout
            assert "the host here, b, is a standby, which cannot admit an agent; a serves, at " in refused.stderr
            assert f"{group.state('a')}. Nothing was issued" in refused.stderr
        assert sorted(tmp_path.rglob("*.pem")) == before


def test_a_host_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    """While the other one lives: exit status 1, with where that one is; and so is one with its state directory."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        twin = group.environ("b") | {"AGTPHOST_CLUSTER_NAME": "a"}
        second = group.start("b", environ=twin)
        assert gone(second) == 1
        until(lambda: "[cluster] name is 'a', and another host with that name, at " in second.output)
        same = group.environ("a") | {"AGTPHOST_CLUSTER_NAME": "c"}
        third = Host(group.config, environ=same)
        assert gone(third) == 1
        until(lambda: f"another host, pid {group.hosts['a'].process.pid}, uses " in third.output)
        group.require_alive("a")


def test_a_host_of_a_killed_ones_name_waits_and_takes_over(tmp_path: Path) -> None:
    """A machine that replaces a dead one may have its name."""
    with cluster(tmp_path, "a", "b") as group:
        group.hosts["a"].kill()
        host = group.start("b", environ=group.environ("b") | {"AGTPHOST_CLUSTER_NAME": "a"}).wait()
        assert group.term() == 2
        with RawLink(host) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200


def test_a_host_with_another_signing_key_does_not_take_over(tmp_path: Path) -> None:
    """It says why, is not ready for anybody, and its store is not copied; with the key and SIGHUP, it takes over."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        with RawLink(group.hosts["a"]) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        file = group.state("b") / "signing.key"
        file.unlink()
        SigningKey.generate().save(file)
        config, probes = probed(group, "b")
        host = group.stand_by("b", config=config)
        why = "the signing key is not the one that signs this store's records: "
        until(lambda: why in host.output)
        status, document = probe(f"{probes}/readyz?standby=ok")
        said = [{"what": "takeover", "why": "its signing key is not that of the host that serves"}]
        assert (status, document["reasons"]) == (503, said)
        checked = agtp("check", str(config), environ=group.environ("b"))
        assert checked.returncode == 0 and f"this host would not take over as a standby: {why}" in checked.stderr
        good = agtp("check", str(group.config), environ=group.environ("a"))
        assert good.returncode == 0 and "take over" not in good.stderr, good.stderr
        assert group.hosts["a"].stop() == 0
        until(lambda: "no host serves; this host does not take over" in host.output)
        # It would go on with the old store as soon as it has the key.
        words = ("store", "copy", group.url, f"sqlite:{tmp_path / 'copy'}", "--config", str(group.config))
        copied = agtp(*words, environ=group.environ("a"))
        assert copied.returncode == 2 and "is in use by b (standby, at " in copied.stderr, copied.stdout + copied.stderr
        assert group.term() == 1 and not (tmp_path / "copy").exists()
        shutil.copy(group.state("a") / "signing.key", file)
        host.process.send_signal(signal.SIGHUP)
        host.wait()
        assert group.term() == 2


LOOKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT term, holder%' AND state = 'idle' "
    "AND query_start > '{}'"
)
"""Counts standbys that have looked at the lease since a moment."""


TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema"


def restore(url: str, saved: str) -> None:
    """Put the tables of a store back, in one transaction, as they were saved."""
    server = postgres.server()
    tables = [
        name for (name,) in server.run("SELECT tablename FROM pg_tables WHERE schemaname = current_schema", url=url)
    ]
    copies = "; ".join(f"INSERT INTO {name} SELECT * FROM {saved}.{name}" for name in sorted(tables))
    server.run(f"TRUNCATE {', '.join(tables)}; {copies}", url=url)


def save(url: str, saved: str) -> None:
    """Copy the tables of a store into another schema."""
    server = postgres.server()
    server.run(f"CREATE SCHEMA {saved}")
    for (name,) in server.run(TABLES, url=url):
        server.run(f"CREATE TABLE {saved}.{name} AS TABLE {name}", url=url)


def test_a_database_that_was_restored_is_served_by_no_host(tmp_path: Path) -> None:
    """
    Restored to an earlier day while hosts run: the one that serves and the standby acknowledge nothing.

    They do so until ``agtp audit accept-store``, also where the standby's witness file is older than the database.
    """
    with cluster(tmp_path, "a", "b") as group:
        with RawLink(group.hosts["a"]) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        save(group.url, "earlier")
        standby = group.stand_by("b")
        with RawLink(group.hosts["a"]) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
            now = postgres.server().run("SELECT clock_timestamp()::text")[0][0]
            until(lambda: postgres.server().run(LOOKED.format(now)) != [(0,)])
            restore(group.url, "earlier")
            for _ in range(2):
                answer = link.ask("ECHO", "/text", {"text": "x"})
                assert (answer.status, answer.reason) == (503, "store-unavailable")
        until(lambda: "restored to an earlier state" in group.hosts["a"].output)
        until(lambda: "a serves; this host does not take over: the store had term 1 with " in standby.output)
        group.hosts["a"].stop()
        until(lambda: "no host serves; this host does not take over: the store had term 1" in standby.output)
        words = ("audit", "accept-store", "--yes", "--config", str(group.config))
        refused = agtp(*words, environ=group.environ("a"))
        assert refused.returncode == 2 and "b (standby, at " in refused.stderr, refused.stderr
        assert group.term() == 1
        assert standby.stop() == 0
        done = agtp(*words, environ=group.environ("a"))
        assert done.returncode == 0, done.stdout + done.stderr
        with RawLink(group.start("a").wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200


def test_a_standby_reads_its_configuration_again(tmp_path: Path) -> None:
    """SIGHUP: a sound one counts at the takeover, and a faulty one is reported and left alone, its modules as well."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        host = group.stand_by("b")
        endpoint = group.folder / "endpoints" / "text.toml"
        text = endpoint.read_text()
        module = group.folder / "handlers" / "later.py"
        module.write_text("")
        text = text.replace("handlers.text.echo", "handlers.later.echo")
        endpoint.write_text(text)
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "not taken: " in host.output and "handlers.later" in host.output)
        module.write_text("from handlers.text import echo\n")
        endpoint.write_text(text.replace('path = "/text"', 'path = "/repeat"'))
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "the configuration was read again" in host.output or host.output.count("not taken: ") > 1)
        assert "the configuration was read again" in host.output
        assert group.hosts["a"].stop() == 0
        with RawLink(host.wait()) as link:
            assert link.ask("ECHO", "/repeat", {"text": "x"}).status == 200
        assert "read again, because" not in host.output and "modules of the handlers" not in host.output


def test_a_takeover_starts_with_the_files_as_they_are_then(tmp_path: Path) -> None:
    """
    What was taken away by a reload of the other host stays away; a listener that is new is opened.

    The lease is kept while the files are read, so that no third host takes it.
    """
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        host, gateway = group.stand_by("b", fault="thorough"), free_port()
        endpoint = group.folder / "endpoints" / "text.toml"
        endpoint.write_text(endpoint.read_text().replace('path = "/text"', 'path = "/repeat"'))
        with group.config.open("a") as file:
            file.write(f'\n[gateway]\nlisten = "tcp:{gateway}:interface=127.0.0.1"\n')
        assert group.hosts["a"].stop() == 0
        with RawLink(host.wait()) as link:
            assert link.ask("ECHO", "/repeat", {"text": "x"}).status == 200
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 404
        assert httpx.get(f"http://127.0.0.1:{gateway}/agents").status_code == 401
        assert "read again, because it has changed: configuration, endpoints" in host.output


def test_a_takeover_with_files_that_have_problems_keeps_what_was_read(tmp_path: Path) -> None:
    """
    It is reported; neither a mistake nor another signing key makes a takeover fail.

    Once the mistake is corrected, a reload applies all that has changed; another signing key keeps no other file away.
    """
    with cluster(tmp_path, "a", "b", "c", takeover_after=LONGEST_LEASE) as group:
        host = group.stand_by("b")
        endpoint = group.folder / "endpoints" / "text.toml"
        before, sound = endpoint.read_text(), group.config.read_text()
        endpoint.write_text(before.replace('path = "/text"', 'path = "/repeat"'))
        group.config.write_text(f"{sound}\n[gateway]\nlisten = 7\n")
        assert group.hosts["a"].stop() == 0
        with RawLink(host.wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
            assert "not taken: " in host.output and "this host serves what it read before" in host.output
            group.config.write_text(sound)
            host.process.send_signal(signal.SIGHUP)
            until(lambda: "SIGHUP: taken: " in host.output)
            assert link.ask("ECHO", "/repeat", {"text": "x"}).status == 200
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 404
        later = group.stand_by("c")
        endpoint.write_text(before.replace('path = "/text"', 'path = "/third"'))
        key = group.state("c") / "signing.key"
        key.unlink()
        SigningKey.generate().save(key)
        assert host.stop() == 0
        with RawLink(later.wait()) as link:
            assert link.ask("ECHO", "/third", {"text": "x"}).status == 200
            assert link.ask("ECHO", "/repeat", {"text": "x"}).status == 404
        assert "the signing key is another one; this host signs with the one that it read before" in later.output


def test_a_takeover_that_fails_gives_the_lease_up(tmp_path: Path) -> None:
    """A port that is in use ends the host with status 1, and another host can take over immediately."""
    with cluster(tmp_path, "a", "b", "c", takeover_after=LONGEST_LEASE) as group:
        config = group.variant("b")
        port = next(line for line in config.read_text().splitlines() if line.startswith("port = ")).split()[-1]
        with socket.create_server(("127.0.0.1", int(port))):
            host = group.stand_by("b", config=config)
            assert group.hosts["a"].stop() == 0
            assert gone(host) == 1
        until(lambda: "the host cannot listen" in host.output)
        assert json.loads(agtp("store", "status", "--json", cwd=group.folder).stdout)["serving"] is None
        group.start("c").wait()


def test_a_host_whose_store_is_away_stands_by(tmp_path: Path) -> None:
    """It says so, and stands by again once the database is back, where this takes less time than the lease."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config, probes = probed(group, "b")
        group.stand_by("b", config=config)
        server = postgres.server()
        server.stop(signal.SIGQUIT)
        try:
            until(lambda: probe(f"{probes}/readyz")[1].get("reasons"))
            assert probe(f"{probes}/readyz?standby=ok")[0] == 503
        finally:
            server.start()
        until(lambda: probe(f"{probes}/readyz?standby=ok")[0] == 200)
        assert probe(f"{probes}/readyz?standby=ok")[1] == {"status": "standby", "serving": "a", "term": 1}


def test_hosts_may_share_a_witness_file(tmp_path: Path) -> None:
    """The host that takes over compares the store with the other one's checkpoint, and goes on with the file."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        assert group.hosts["a"].stop() == 0
        witness = tmp_path / "checkpoint.txt"
        edit = ("[cluster]\n", f'[audit]\nwitness = "{witness}"\n\n[cluster]\n')
        host = group.start("a", config=group.variant("a", edit)).wait()
        standby = group.stand_by("b", config=group.variant("b", edit))
        with RawLink(host) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        assert host.stop() == 0
        first = witness.read_text()
        with RawLink(standby.wait()) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        assert standby.stop() == 0
        assert witness.read_text() != first


def test_cluster_status_compares_the_hosts(tmp_path: Path) -> None:
    """Who serves, the versions, and which kinds of files differ; a killed host is silent, and one that stops gone."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:

        def hosts() -> dict[str, Any]:
            done = agtp("cluster", "status", "--json", cwd=group.folder)
            assert done.returncode == 0, done.stderr
            return {host["name"]: host for host in json.loads(done.stdout)["hosts"]}

        group.stand_by("b")
        until(lambda: len(hosts()) == 2)
        found = hosts()
        assert {name: (host["state"], host["differs"]) for name, host in found.items()} == {
            "a": ("serving", []),
            "b": ("standby", []),
        }
        assert {host["version"] for host in found.values()} == {__version__}
        assert {"configuration", "endpoints", "handlers", "signing key"} <= set(found["a"]["settings"])
        assert found["b"]["place"].endswith(str(group.state("b")))
        # A standby shows the files that a takeover would read; the host that serves, those that it has read.
        endpoint = group.folder / "endpoints" / "text.toml"
        endpoint.write_text(endpoint.read_text().replace('path = "/text"', 'path = "/repeat"'))
        until(lambda: "changed since this host read them: endpoints" in group.hosts["b"].output)
        until(lambda: hosts()["b"]["differs"] == ["endpoints"])
        group.hosts["a"].process.send_signal(signal.SIGHUP)
        until(lambda: hosts()["b"]["differs"] == [])
        done = agtp("key", "rotate", cwd=group.folder, environ=group.environ("a"))
        assert f"b, on standby at {found['b']['place']}, cannot take over until it has the new key" in done.stderr
        until(lambda: hosts()["b"]["differs"] == ["signing key"])
        warned = agtp("cluster", "status", cwd=group.folder)
        assert "b cannot take over, because its signing key is not that of the host that serves" in warned.stderr
        for name in ("signing.key", "signing.pub"):
            shutil.copy2(group.state("a") / name, group.state("b") / name)
        shutil.copytree(group.state("a") / "keys", group.state("b") / "keys", dirs_exist_ok=True)
        until(lambda: "the signing key has changed, and a takeover does not read it" in group.hosts["b"].output)
        # Until it has read the key, it cannot take over, though its files are those of the other host.
        renewed = "SELECT settings LIKE '%not read%' FROM process WHERE name = 'b'"
        until(lambda: postgres.server().run(renewed, url=group.url) == [(True,)])
        assert hosts()["b"]["differs"] == ["signing key"]
        group.hosts["b"].process.send_signal(signal.SIGHUP)
        until(lambda: hosts()["b"]["differs"] == [])
        assert group.hosts["b"].stop() == 0
        assert set(hosts()) == {"a"}
        group.stand_by("b", config=group.variant("b"))
        until(lambda: "b" in hosts())
        assert hosts()["b"]["differs"] == ["configuration"]
        shown = agtp("cluster", "status", cwd=group.folder).stdout
        assert "serving  a, with term 1\n" in shown
        assert re.search(r"^b +standby +\S+ +\S+ +configuration +", shown, re.MULTILINE), shown
        group.hosts["b"].kill()
        postgres.server().run("UPDATE process SET beat = beat - interval '1 minute' WHERE name = 'b'", url=group.url)
        assert hosts()["b"]["state"] == "silent"
        # As a host that was killed while it served, and that another one has replaced since.
        taken = "UPDATE process SET name = '0', state = 'serving', beat = clock_timestamp() WHERE name = 'b'"
        postgres.server().run(taken, url=group.url)
        found = hosts()
        assert {name: (host["state"], host["differs"]) for name, host in found.items()} == {
            "0": ("silent", ["configuration"]),
            "a": ("serving", []),
        }
