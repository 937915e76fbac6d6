"""``agtp audit follow`` of real hosts: every record once, in order, over restarts, and nothing unsigned."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.identity import jws
from agtphost.identity.keys import SigningKey
from tests import forking
from tests.system.hosting import BIN, Host, agtp, running, sample, until
from tests.system.raw_link import Answer, RawLink, client_context, request


class Following:
    """The command, and what it says line by line."""

    def __init__(self, config: Path, *words: str, form: tuple[str, ...] = ("--json",)) -> None:
        self.process = forking.start(
            [BIN / "agtp", "audit", "follow", *form, *words],
            cwd=config.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ),
        )
        self.seen: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._is_json = bool(form)
        self.said: list[str] = []
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._hear)]
        for each in self._threads:
            each.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode())
            if self._is_json:
                self.seen.append(json.loads(line))

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.decode())

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        for each in self._threads:
            each.join()
        return status


def moments(host: Host) -> list[str]:
    """What the host's own chain says of feeds, oldest first."""
    entries = host.agtp_json("audit", "walk", "host", "--all")
    extras = [entry["payload"].get("extra") or {} for entry in reversed(entries)]
    return [extra["feed"]["moment"] for extra in extras if "feed" in extra]


def stored(host: Host) -> list[str]:
    """The Audit-IDs of the store in its order."""
    with closing(sqlite3.connect(f"file:{host.state}/agtphost.sqlite3?mode=ro", uri=True)) as database:
        return [row[0].hex() for row in database.execute("SELECT audit_id FROM record ORDER BY number")]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("followed"))) as started:
        yield started


def test_records_are_shown_as_they_are_made(host: Host) -> None:
    """
    Each call that is wanted, and no other; opening and closing are on record, and an idle host makes no records of
    feeds but of what is asked.
    """
    every = Following(host.config)
    refused = Following(host.config, "--status", "4xx", "--agent", "demo", "--reason", "not-found")
    until(lambda: moments(host).count("opens") == 2)
    assert host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
    assert host.agtp("call", "-", "DISCOVER", "/nothing").returncode == 1
    assert host.agtp("call", "-", "DISCOVER", "/nothing", "--no-cert").returncode == 1
    until(lambda: refused.seen and [each["payload"]["method"] for each in every.seen].count("DISCOVER") == 3)
    assert every.end() == 0 and refused.end() == 0
    assert refused.seen[0]["payload"]["reason"] == "not-found" and refused.seen[0]["verified"] is True
    assert [each["number"] for each in every.seen] == sorted({each["number"] for each in every.seen})
    assert not any(
        (each["payload"].get("extra") or {}).get("feed", {}).get("moment") == "goes on" for each in every.seen
    )
    told = moments(host)
    assert told.count("opens") == told.count("closes") == 2
    # Answers for the walks above and three calls, for two who follow; none of them woke the other, or itself.
    assert told.count("goes on") < 60


def test_tools_are_told_apart(host: Host) -> None:
    """By the name that a tool is called by; ``--since`` begins before now."""
    assert host.agtp("tools", "call", "files.list_files").returncode == 0
    followed = Following(host.config, "--tool", "files.list_files", "--since", "1h")
    until(lambda: followed.seen)
    assert followed.end() == 0
    assert {each["payload"]["extra"]["mcp_tool"] for each in followed.seen} == {"list_files"}
    other = host.agtp("audit", "follow", "--status", "40")
    assert other.returncode == 2 and "Write a number from 100 to 999, or a class such as 4xx." in other.stderr


FORGED = "2026-11-30T05:00:00.000Z  200  files.safe  admin (operator)  " + "ab" * 32


def test_a_name_with_line_ends_forges_no_record(host: Host) -> None:
    """What an agent sends as a tool's name is one line in each list, in explain and in follow."""
    given = {"tool": f"files.x\n{FORGED}\n  proof    hash and signature of the record are valid", "arguments": {}}
    asked = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": given}
    refused = host.agtp("call", "-", "EXECUTE", "/", "--data", json.dumps(asked), "--json")
    audit_id = dict(json.loads(refused.stdout)["headers"])["Audit-ID"]
    followed = Following(host.config, "--since", "1h", form=())
    until(lambda: any(audit_id in line for line in followed.lines))
    assert followed.end() == 0
    shown = {
        "follow": "".join(followed.lines),
        **{
            " ".join(words): host.agtp(*words).stdout
            for words in (
                ("audit", "search", "method:EXECUTE"),
                ("audit", "walk", "host"),
                ("explain", audit_id),
                ("audit", "get", audit_id),
            )
        },
    }
    for name, text in shown.items():
        assert audit_id in text or name.startswith("explain"), name
        forged = [line for line in text.splitlines() if line.strip().startswith(FORGED)]
        assert not forged, (name, forged)
        assert text.count("\n  proof    hash and signature") == (name.startswith("explain")), (name, text)


def test_a_restart_leaves_nothing_out(tmp_path: Path) -> None:
    """Killed and started again under load: every record once, none left out but those of the feed itself."""
    config = sample(tmp_path)
    with running(config) as host:
        followed = Following(config)
        until(lambda: "opens" in moments(host))
        for _ in range(5):
            host.agtp("call", "-", "DESCRIBE", "/")
        host.kill()
        until(lambda: any("trying again" in line for line in followed.said))
    with running(config) as host:
        for _ in range(5):
            host.agtp("call", "-", "DESCRIBE", "/")
        # Not the last of the store: that may be the feed's own, which is not shown.
        last = host.agtp_json("call", "-", "DESCRIBE", "/")["audit_id"]
        until(lambda: last in [each["audit_id"] for each in followed.seen])
        assert followed.end() == 0
        shown = [each["audit_id"] for each in followed.seen]
        order = stored(host)
    assert len(shown) == len(set(shown))
    between = order[order.index(shown[0]) : order.index(shown[-1]) + 1]
    left = set(between) - set(shown)
    with closing(sqlite3.connect(config.parent / "state" / "agtphost.sqlite3")) as database:
        rows = database.execute("SELECT audit_id, signed FROM record").fetchall()
    signed = {row[0].hex(): row[1] for row in rows}
    assert all(jws.parse_unverified(signed[each])["extra"]["feed"]["moment"] == "goes on" for each in left)
    assert shown == [each for each in order if each in set(shown)], "in the order of the store"


def test_what_is_not_signed_is_not_shown(tmp_path: Path) -> None:
    """The control: records that another key signed end the command with exit status 4."""
    config = sample(tmp_path)
    with running(config) as host:
        assert host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
        (host.state / "signing.pub").write_bytes(SigningKey.generate().public.pem)
        done = host.agtp("audit", "follow", "--since", "1h")
        assert done.returncode == 4, done.stdout + done.stderr
        assert re.search("does not verify", done.stderr)


def _ask_and_wait(host: Host, certificate: Path) -> RawLink:
    """Send a poll that waits for a record; its answer is to be read."""
    context = client_context(host, identified=False)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    link = RawLink(host, context=context)
    opened = link.ask("INSPECT", "/", {"target": "feed", "moment": "opens"})
    body = {"target": "feed", "moment": "goes on", "after": opened.json()["result"]["after"]}
    # The opening is on record itself, and is read before.
    body["after"] = link.ask("INSPECT", "/", body).json()["result"]["after"]
    link.send(request("INSPECT", "/", {**body, "wait": 25}))
    return link


def _find_shown(answer: Answer | None) -> list[Any]:
    assert answer is not None and answer.status == 200
    return list(answer.json()["result"]["records"])


def test_a_poll_that_waits_gives_nothing_to_a_former_operator(tmp_path: Path) -> None:
    """The right is looked at again before the answer: after a reload without the entry, and after a revocation."""
    config = sample(tmp_path)
    here, listed = config.parent, config.read_text()
    with running(config):
        pass
    for name in ("anna", "berta"):
        made = agtp("cert", "issue", "client", name, "--ca", "state/ca.pem", "-o", f"{name}.pem", cwd=here)
        assert made.returncode == 0, made.stderr
    assert agtp("cert", "crl", cwd=here).returncode == 0
    with_list = f'{listed}\n[tls]\nclient_crl = "state/crl.pem"\n'
    entry = '\n[[operator]]\nname = "{0}"\nkey = "{0}.pem"\nrole = "viewer"\n'
    config.write_text(with_list + entry.format("anna") + entry.format("berta"))
    with running(config) as host:
        with _ask_and_wait(host, here / "berta.pem") as link:
            assert host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
            assert _find_shown(link.answer()), "the control: a right that goes on"
        with _ask_and_wait(host, here / "anna.pem") as link:
            config.write_text(with_list + entry.format("berta"))
            assert host.agtp("reload").returncode == 0
            assert not _find_shown(link.answer())
            assert link.ask("INSPECT", "/", {"target": "feed", "moment": "goes on"}).status == 403
        with _ask_and_wait(host, here / "berta.pem") as link:
            heard = len(host.output)
            assert host.agtp("cert", "revoke", "berta.pem").returncode == 0
            until(lambda: "crl.pem" in host.output[heard:])
            host.agtp("call", "-", "DISCOVER", "/methods")
            assert not _find_shown(link.answer())
            assert link.ask("INSPECT", "/", {"target": "feed", "moment": "goes on"}).reason == "certificate-revoked"


def test_a_poll_that_waits_gives_nothing_to_an_agent_that_lost_its_scope(tmp_path: Path) -> None:
    """An overseer whose ``inspect:all`` is taken back while its poll waits gets no record that ends the wait."""
    config = sample(tmp_path)
    with running(config) as host:
        made = host.agtp("agent", "new", "warden", "--scope", "inspect:all", "--admit")
        assert made.returncode == 0, made.stderr
        with _ask_and_wait(host, config.parent / "state/agents/warden/agent.pem") as link:
            taken = host.agtp("agent", "ungrant", "warden", "inspect:all")
            assert taken.returncode == 0, taken.stderr
            shown, answer = [], link.answer()
            # On a busy machine what the command asks first may have ended the wait, when the right was still there.
            while found := _find_shown(answer):
                shown += [jws.parse_unverified(each["jws"]).get("method") for each in found]
                after = answer.json()["result"]["after"]
                answer = link.ask("INSPECT", "/", {"target": "feed", "moment": "goes on", "after": after, "wait": 25})
                if answer.status == 403:
                    break
            assert "REVOKE" not in shown
            assert link.ask("INSPECT", "/", {"target": "feed", "moment": "goes on"}).status == 403
