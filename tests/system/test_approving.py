"""What an operator approves is what was shown: a real server's tool changes, and ``agtp tools approve`` is asked."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from agtphost.identity.keys import SigningKey
from tests import forking
from tests.system.hosting import BIN, Host, agtp, running, sample, until

SERVER = Path(__file__).with_name("changing_server.py")
TOOLS = "application/vnd.mcp.tools+json"


def deployed(folder: Path) -> tuple[Path, Path]:
    """``host.toml``, and the file that says what the tool is."""
    words = folder / "words"
    words.write_text("Adds up.\nNothing else.")
    command = json.dumps(forking.mcp_server(SERVER, words))
    more = f'\n[[mcp.server]]\nname = "changing"\ncommand = {command}\nmin_assurance = "certificate"\n'
    return sample(folder, append=more), words


@contextmanager
def client_of(host: Host) -> Iterator[Client]:
    demo = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
        yield client


def execute(host: Host, action: str, payload: dict[str, Any]) -> Any:
    with client_of(host) as client:
        body = {"action": action, "payload_type": TOOLS, "payload": payload}
        return client.call(host.uri, "EXECUTE", "/", body)


def called(host: Host, tool: str = "changing.work", **arguments: Any) -> int:
    return int(execute(host, "mcp.tools.call", {"tool": tool, "arguments": arguments}).status)


def shown(host: Host, name: str = "work") -> Any:
    with client_of(host) as client:
        given = {"target": "upstream-definition", "upstream": "mcp.changing", "name": name}
        return client.call(host.uri, "INSPECT", "/", given)


def present(host: Host) -> str:
    """The digest of what the tool is now; empty while that is not known."""
    reply = shown(host)
    return str(reply.result["upstream_definition"]["present"]["sha256"]) if reply.ok else ""


def operated_by_demo(config: Path) -> None:
    """Have the host made once, so that ``demo`` has a key, and make it an operator."""
    with running(config) as host:
        assert called(host, amount=1) == 200
        refused = host.agtp("tools", "approve", "changing.work")
        assert (refused.returncode, "operators" in refused.stderr) == (1, True), refused.stderr
        shown_key = host.agtp_json("cert", "show", str(host.state / "agents/demo/agent.pem"))
        host.stop()
    with config.open("a") as file:
        file.write(f'\n[audit]\noperators = ["{shown_key["key_fingerprint"]}"]\n')


def at_a_terminal(host: Host, answer: str, *words: str) -> tuple[int, str, str]:
    """Run ``agtp`` where somebody answers: exit status, standard output, and what the terminal showed."""
    ours, theirs = pty.openpty()
    process = forking.start(
        [str(BIN / "agtp"), *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=host.config.parent,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(theirs)
    seen = b""
    try:
        while b"[y/N]" not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        output, _ = process.communicate(timeout=60)
        return process.returncode, output.decode(), seen.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(ours)


@pytest.mark.release
def test_what_is_approved_is_what_was_shown(tmp_path: Path) -> None:
    """
    Design decision 16: after a restart the difference is shown, and the approval names the digest of what was shown.

    Nobody who can be asked: refused, and told what to do. No digest: 422. A change after the look: 409. A no: off.
    """
    config, words = deployed(tmp_path)
    operated_by_demo(config)
    words.write_text("Adds up.\nAnd sends \N{LATIN SMALL LETTER E WITH ACUTE}verything to another host.")
    with running(config) as host:
        assert called(host, amount=1) == 503
        for more in ((), ("--json",)):
            refused = host.agtp("tools", "approve", "changing.work", *more)
            assert refused.returncode == 2 and "--yes" in refused.stderr, refused.stderr
            lines = [line.strip() for line in refused.stderr.splitlines()]
            assert any(line.startswith("-") and "Nothing else." in line for line in lines), refused.stderr
            assert any(line.startswith("+") and "verything to another host" in line for line in lines), refused.stderr
            assert not any(line[:1] in "+-" and "amount" in line for line in lines if line)
        first = present(host)
        assert f"--sha256 {first}" in refused.stderr
        assert execute(host, "mcp.tools.approve", {"tool": "changing.work"}).reason == "missing-parameter"
        assert execute(host, "mcp.tools.approve", {"tool": "changing.work", "sha256": "F" * 64}).status == 422
        # It changes once more after it was looked at.
        words.write_text("Does anything at all.")
        called(host, "changing.leave")
        until(lambda: present(host) not in ("", first))
        late = execute(host, "mcp.tools.approve", {"tool": "changing.work", "sha256": first})
        assert (late.status, late.reason) == (409, "definition-changed-again")
        assert host.agtp("tools", "approve", "changing.work", "--sha256", first).returncode == 1
        status, _, terminal = at_a_terminal(host, "n", "tools", "approve", "changing.work")
        assert (status, "Does anything at all." in terminal) == (1, True)
        assert called(host, amount=1) == 503
        status, output, _ = at_a_terminal(host, "y", "tools", "approve", "changing.work")
        assert status == 0 and present(host) in output
        assert called(host, amount=1) == 200
        again = host.agtp("tools", "approve", "changing.work", "--yes")
        assert (again.returncode, "does not need approval" in again.stderr) == (1, True), again.stderr


def test_where_only_the_digest_is_known_that_is_said(tmp_path: Path) -> None:
    """A store of an earlier version has no definitions: the new one is shown whole, and can be approved."""
    config, words = deployed(tmp_path)
    operated_by_demo(config)
    with sqlite3.connect(config.parent / "state" / "agtphost.sqlite3") as store:
        assert store.execute("DELETE FROM held WHERE kind = 'upstream-definition'").rowcount >= 2
    # Rows that go without the host are noticed, so this has to be said to be meant.
    done = agtp("audit", "accept-store", "--yes", "--config", str(config))
    assert done.returncode == 0, done.stderr
    words.write_text("Does anything at all.")
    with running(config) as host:
        assert called(host, amount=1) == 503
        found = shown(host).result["upstream_definition"]
        assert found["off"] and "definition" not in found["approved"] and "digest" in found["approved"]["unknown"]
        # Control: of the other tool, which did not change, the text is there.
        other = shown(host, "leave").result["upstream_definition"]
        assert not other["off"] and other["approved"]["definition"] == other["present"]["definition"]
        done = host.agtp("tools", "approve", "changing.work", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert "only the digest of the approved definition" in done.stderr and "Does anything at all." in done.stderr
        assert json.loads(done.stdout)["definition_digest"] == found["present"]["sha256"]
        assert called(host, amount=1) == 200


def test_an_operator_approves_whose_certificate_names_no_agent(tmp_path: Path) -> None:
    """People are known by their key: the event names it. Another key of the same authority approves nothing."""
    config, words = deployed(tmp_path)
    with running(config) as host:
        assert called(host, amount=1) == 200
        key = SigningKey.load(host.state / "registrar.key").public.fingerprint
        host.stop()
    words.write_text("Does anything at all.")
    with running(config) as host:
        issued = host.agtp("cert", "issue", "client", "other", "--ca", "state/ca.pem", "-o", "other.pem")
        assert issued.returncode == 0, issued.stderr
        refused = host.agtp("tools", "approve", "changing.work", "--sha256", "0" * 64, "--cert", "other.pem")
        assert (refused.returncode, "401" in refused.stderr) == (1, True), refused.stderr
        host.stop()
    with config.open("a") as file:
        file.write(f'\n[audit]\noperators = ["{key}"]\n')
    with running(config) as host:
        assert called(host, amount=1) == 503
        done = host.agtp("tools", "approve", "changing.work", "--yes", "--json", "--as", "registrar")
        assert done.returncode == 0, done.stderr
        assert called(host, amount=1) == 200
        told = host.agtp_json("call", "-", "INSPECT", "/", "target=chain", "chain=host", "--as", "registrar")
        records = [each["payload"] for each in told["body"]["result"]["records"]]
        (event,) = (each for each in records if each.get("event_type") == "upstream-definition-approved")
        assert event["approved_by"] == key
