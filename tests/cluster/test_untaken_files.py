"""A takeover with changed files that would keep the host from serving: what is taken, what stays, and who learns it."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from agtphost.identity.certificates import create_authority, issue_server_certificate, key_pem_of, new_tls_key, pem_of
from agtphost.identity.keys import SigningKey
from agtphost.stores.lease import LONGEST_LEASE, UNTAKEN
from tests import postgres
from tests.cluster.hosts import Cluster, cluster
from tests.host.test_trial_start import CARD_KEY
from tests.system.hosting import Host, agtp, free_port, until
from tests.system.raw_link import RawLink

pytestmark = postgres.needed

TOKENS = ("a" * 40, "b" * 40)
CLIENT = """
[gateway]
listen = "tcp:%d:interface=127.0.0.1"

[[http.client]]
name = "ci"
token = "file:token"
agent = "%s"
"""


def rename(group: Cluster, old: str, new: str) -> None:
    """Give an endpoint another path."""
    file = group.folder / "endpoints" / "text.toml"
    text = file.read_text()
    assert f'path = "{old}"' in text
    file.write_text(text.replace(f'path = "{old}"', f'path = "{new}"'))


def write_token(folder: Path, token: str) -> None:
    file = folder / "token"
    file.write_text(token)
    file.chmod(0o600)


def paths_of(host: Host) -> list[str]:
    """Return those of the paths of one endpoint that a host serves."""
    with RawLink(host) as link:
        return [path for path in ("/text", "/repeat") if link.ask("ECHO", path, {"text": "x"}).status == 200]


def shown(group: Cluster, name: str, config: Path) -> tuple[list[str], list[str]]:
    """Return the notes of ``agtp status`` and the kinds that ``agtp cluster status`` shows as not taken."""
    where = ("--config", str(config), "--uri", group.hosts[name].uri)
    status = agtp("status", "--json", *where, environ=group.environ(name))
    assert status.returncode == 0, status.stderr
    done = agtp("cluster", "status", "--json", cwd=group.folder)
    hosts: list[dict[str, Any]] = json.loads(done.stdout)["hosts"]
    settings = next(host["settings"] for host in hosts if host["name"] == name)
    notes = [note for note in json.loads(status.stdout)["warnings"] if "not taken" in note]
    return notes, [kind for kind, digest in settings.items() if digest == UNTAKEN]


def test_a_takeover_keeps_its_port_where_the_changed_one_is_taken(tmp_path: Path) -> None:
    """As with a reload, the key waits for a restart, and what was taken away elsewhere stays away."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group, socket.socket() as other:
        config = group.variant("b")
        port = next(line for line in config.read_text().splitlines() if line.startswith("port = "))
        host = group.stand_by("b", config=config)
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        config.write_text(config.read_text().replace(port, f"port = {taken}"))
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        assert host.wait().uri.endswith(f":{port.split()[-1]}")
        assert paths_of(host) == ["/repeat"]
        assert "not taken: " in host.output and str(taken) in host.output
        until(lambda: shown(group, "b", config)[1] == ["configuration"])
        (note,), _ = shown(group, "b", config)
        assert "[listen]" in note and str(taken) in note and "restart this host" in note
        text = agtp("cluster", "status", cwd=group.folder).stderr
        assert "b serves what it read before it took over" in text and "the changed configuration" in text
        # A reload of other files does not hide what still waits.
        rename(group, "/repeat", "/text")
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: endpoints" in host.output)
        assert shown(group, "b", config)[0] == [note]


def test_a_takeover_keeps_its_witness_where_the_changed_one_is_missing(tmp_path: Path) -> None:
    """A witness file that is not there keeps a host from starting: the key waits, and all else is taken."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config = group.variant("b")
        host = group.stand_by("b", config=config)
        assert paths_of(group.hosts["a"]) == ["/text"]
        config.write_text(f'{config.read_text()}\n[audit]\nwitness = "missing.txt"\n')
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        assert paths_of(host.wait()) == ["/repeat"]
        assert not (group.folder / "missing.txt").exists()
        (note,), kinds = shown(group, "b", config)
        assert kinds == ["configuration"]
        assert "[audit] witness" in note and "missing.txt is not there" in note and "restart this host" in note


def certify(folder: Path, name: str) -> None:
    """Write a certificate of a new authority, and its key."""
    key, now = new_tls_key(), datetime.now(UTC)
    issued = issue_server_certificate(create_authority(now=now), key.public_key(), server_id="localhost", now=now)
    (folder / f"{name}.pem").write_bytes(pem_of(issued))
    (folder / f"{name}.key").write_bytes(key_pem_of(key))
    (folder / f"{name}.key").chmod(0o600)


def test_a_takeover_serves_https_with_the_certificate_that_it_read(tmp_path: Path) -> None:
    """Where the certificate's file is missing by then, nothing that has changed is taken, until a reload can."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        certify(group.folder, "https")
        port = free_port()
        config = group.variant("b")
        with config.open("a") as file:
            file.write(f'\n[gateway]\nlisten = "ssl:{port}:interface=127.0.0.1"\n')
            file.write('certificate = "https.pem"\nkey = "https.key"\n')
        host = group.stand_by("b", config=config)
        certificate = group.folder / "https.pem"
        read = certificate.read_text()
        certificate.unlink()
        rename(group, "/text", "/repeat")
        assert group.hosts["a"].stop() == 0
        host.wait()
        assert paths_of(host) == ["/text"]
        served = ssl.get_server_certificate(("127.0.0.1", port))
        assert served.split() == read.split()
        assert "not taken: " in host.output and "this host serves what it read before" in host.output
        until(lambda: set(shown(group, "b", config)[1]) == {"endpoints", "HTTPS files"})
        (note,), _ = shown(group, "b", config)
        assert "HTTPS files, endpoints: " in note and "https.pem" in note and "`agtp reload`" in note
        certify(group.folder, "https")
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: " in host.output)
        assert paths_of(host) == ["/repeat"]
        until(lambda: shown(group, "b", config) == ([], []))
        assert ssl.get_server_certificate(("127.0.0.1", port)).split() == certificate.read_text().split()


def test_a_takeover_refuses_what_only_the_assembly_finds(tmp_path: Path) -> None:
    """A key of an A2A agent that is missing: nothing of it stays, neither modules nor issued agents."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        host = group.stand_by("b")
        endpoint = group.folder / "endpoints" / "text.toml"
        text = endpoint.read_text()
        endpoint.write_text(text.replace('path = "/text"', 'path = "/repeat"').replace("text.echo", "later.echo"))
        sound = group.config.read_text()
        group.config.write_text(sound + CARD_KEY)
        module = group.folder / "handlers" / "later.py"
        module.write_text("from handlers.text import echo\n")
        described = '{"name": "newcomer", "description": "New."}'
        (group.folder / "agents" / "newcomer.agent.json").write_text(described)
        assert group.hosts["a"].stop() == 0
        assert paths_of(host.wait()) == ["/text"]
        assert "this host serves what it read before" in host.output
        assert "not taken: " in host.output and "card_keys" in host.output
        assert not list(group.state("b").rglob("newcomer"))
        module.write_text("from handlers.text import echo as repeat\n")
        endpoint.write_text(endpoint.read_text().replace("later.echo", "later.repeat"))
        group.config.write_text(sound)
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP: taken: " in host.output or "SIGHUP: nothing changed" in host.output)
        assert paths_of(host) == ["/repeat"]
        assert "newcomer" in agtp("agent", "ls", cwd=group.folder, environ=group.environ("b")).stdout


def test_a_takeover_survives_a_module_that_ends_the_interpreter(tmp_path: Path) -> None:
    """No signal raises KeyboardInterrupt while the reactor runs, so it is the module's own, as is a cancelled task."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        host = group.stand_by("b")
        endpoint = group.folder / "endpoints" / "text.toml"
        endpoint.write_text(endpoint.read_text().replace('"/text"', '"/repeat"').replace("text.echo", "later.echo"))
        (group.folder / "handlers" / "later.py").write_text("raise KeyboardInterrupt\n")
        assert group.hosts["a"].stop() == 0
        assert paths_of(host.wait()) == ["/text"]
        assert "this host serves what it read before" in host.output and "KeyboardInterrupt" in host.output


def test_files_that_change_before_a_host_stands_by_are_noticed(tmp_path: Path) -> None:
    """Between reading and standing by: an endpoint that was taken away is gone, and so is a token, after a takeover."""
    gateway = free_port()
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        write_token(group.folder, TOKENS[0])
        config = group.variant("b")
        config.write_text(config.read_text() + CLIENT % (gateway, "demo"))
        before = group.start("b", config=config, fault="edited", environ={"TEST_FOLDER": str(group.folder)})
        until(lambda: "agtphost standby" in before.output)
        until(lambda: "changed since this host read them: endpoints, other files" in before.output)
        assert group.hosts["a"].stop() == 0
        assert paths_of(before.wait()) == ["/repeat"]
        answers = [
            httpx.get(f"http://127.0.0.1:{gateway}/agents", headers={"Authorization": f"Bearer {token}"}).status_code
            for token in TOKENS
        ]
        assert answers == [401, 200]


def test_an_operator_whose_key_goes_stays_the_administrator(tmp_path: Path) -> None:
    """Otherwise no administrator were listed, and a development host would let its registrars do everything."""
    with cluster(tmp_path, "a", "b", takeover_after=LONGEST_LEASE) as group:
        config, key = group.variant("b"), group.folder / "vera.pub"
        SigningKey.generate().public.save(key)
        # In place of the sample's administrator, who is the registrar.
        text, count = re.subn(r'(name = "admin"\n)key = .*\n', r'\1key = "vera.pub"\n', config.read_text())
        assert count == 1
        config.write_text(text)
        host = group.stand_by("b", config=config)
        key.unlink()
        assert group.hosts["a"].stop() == 0
        where = ("--config", str(config), "--uri", host.wait().uri)
        done = agtp("reload", *where, environ=group.environ("b"))
        assert done.returncode == 1 and 'role = "administrator"' in done.stderr, done.stderr
        assert "reload: " not in host.output
        assert "has no key" not in host.output
        assert "not taken: " in host.output and "vera.pub" in host.output
