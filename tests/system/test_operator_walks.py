"""Four days of an operator, in a terminal: an incident, a week's review, a new tool, and an operator who leaves."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.system.hosting import Host, running, sample
from tests.system.up_host import VERIFIER

TOOL = "files.list_files"


def typed(host: Host, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command, which ends with this status."""
    done = host.agtp(*words)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done


def counted(host: Host, what: str, *words: str) -> dict[str, int]:
    """Return the records by tool, agent, status or hour."""
    found = host.agtp_json("audit", "search", *words, "--count", what)["counts"]
    return {str(each.get("label", each["value"])): int(each["records"]) for each in found}


def add_operator(host: Host, name: str, role: str) -> str:
    """Give a person a certificate and a role; return the name of the certificate's file."""
    typed(host, "cert", "issue", "client", name, "--ca", "state/ca.pem", "-o", f"{name}.pem")
    with host.config.open("a") as file:
        file.write(f'\n[[operator]]\nname = "{name}"\nkey = "{name}.pem"\nrole = "{role}"\n')
    typed(host, "reload")
    return f"{name}.pem"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host."""
    with running(sample(tmp_path_factory.mktemp("operated"))) as started:
        yield started


def test_an_incident(host: Host, tmp_path: Path) -> None:
    """What happened, who it was, stop it, and prove it to somebody who has neither the host nor the program."""
    typed(host, "agent", "create", "clerk", "--scope", "documents:query")
    typed(host, "reload")
    certificate = "state/agents/clerk/agent.pem"
    for _ in range(3):
        typed(host, "call", "-", "QUERY", "/library/9780142437230", "--cert", certificate)
        typed(host, "tools", "call", TOOL, "--cert", certificate, status=1)
    # What: refusals of the last hour, and where they come from.
    assert counted(host, "agent", "status:4xx from:-1h")["clerk"] == 3
    # Who: everything that this agent did, in one table.
    listed = list(csv.DictReader(typed(host, "audit", "search", "caller:clerk from:-1h", "--csv").stdout.splitlines()))
    assert [row["status"] for row in listed].count("200") == 3 and {row["caller"] for row in listed} == {"clerk"}
    assert typed(host, "explain", listed[0]["audit_id"]).stdout
    # Stop: the next request is refused.
    typed(host, "agent", "revoke", "clerk", "--reason", "reads what it should not")
    stopped = host.agtp("call", "-", "QUERY", "/library/9780142437230", "--cert", certificate)
    assert stopped.returncode == 1 and "410" in stopped.stderr + stopped.stdout, stopped.stderr
    (revoked,) = host.agtp_json("audit", "search", "method:REVOKE")
    assert revoked["payload"]["operator"]["name"] == "admin"
    # Prove: the export is verified by a program of its own, with the host's key alone.
    export = tmp_path / "incident.jsonl"
    typed(host, "audit", "export", "--caller", "clerk", "--from", "-1h", "--proofs", "-o", str(export))
    proof = subprocess.run(
        [sys.executable, str(VERIFIER), str(export), "--key", str(host.state / "signing.pub")],
        capture_output=True,
        text=True,
    )
    assert proof.returncode == 0, proof.stdout + proof.stderr
    lines = export.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"signed"' in line)
    record = json.loads(lines[at])
    middle = len(record["signed"]) // 2
    other = "A" if record["signed"][middle] != "A" else "B"
    record["signed"] = record["signed"][:middle] + other + record["signed"][middle + 1 :]
    lines[at] = json.dumps(record) + "\n"
    export.write_text("".join(lines))
    forged = subprocess.run(
        [sys.executable, str(VERIFIER), str(export), "--key", str(host.state / "signing.pub")], capture_output=True
    )
    assert forged.returncode != 0


def test_a_weeks_review(host: Host, tmp_path: Path) -> None:
    """Calls by hour, tool, agent and status; who has which rights; the file for the auditor."""
    for _ in range(2):
        typed(host, "tools", "call", TOOL)
    typed(host, "call", "-", "DISCOVER", "/nothing", status=1)
    week = "from:-7d"
    by_tool, by_agent = counted(host, "tool", week), counted(host, "agent", week)
    assert by_tool[TOOL] >= 2 and by_agent["demo"] >= 3
    assert sum(counted(host, "hour", week).values()) >= sum(by_agent.values())
    assert counted(host, "status", week, "caller:demo")["404"] >= 1
    names = {row["name"] for row in host.agtp_json("agent", "list")}
    assert "demo" in names
    rights = host.agtp_json("agent", "rights", "demo")
    assert rights
    export, table = tmp_path / "week.jsonl", tmp_path / "week.csv"
    typed(host, "audit", "export", "--from", "-7d", "--proofs", "-o", str(export))
    typed(host, "audit", "report", str(export), "--csv", str(table), "-o", str(tmp_path / "week.html"))
    assert {"demo"} <= {row["caller"] for row in csv.DictReader(table.read_text().splitlines())}
    assert "verified" in typed(host, "audit", "verify").stdout


def test_a_new_tool_is_introduced(host: Host) -> None:
    """Add its server, hold its calls for a person, let one agent call it, decide, and see who did what."""
    server = forking.mcp_server(Path(__file__).with_name("changing_server.py"), _words(host))
    added = typed(host, "upstream", "add", "sums", *map(str, server))
    assert "sums" in added.stdout
    with host.config.open("a") as file:
        file.write('\n[mcp.server.tools.work]\napproval = "required"\n')
    typed(host, "reload")
    cashier = add_operator(host, "berta", "approver")
    typed(host, "agent", "allow", "demo", "sums.work")
    held = host.agtp("tools", "call", "sums.work", "amount=1")
    assert held.returncode == 5, held.stdout + held.stderr
    (waiting,) = host.agtp_json("approvals", "ls", "--cert", cashier)
    typed(host, "approvals", "decide", waiting["approval_id"], "--accept", "--reason", "ticket 4711", "--cert", cashier)
    typed(host, "tools", "call", "sums.work", "amount=1")
    made = host.agtp_json("audit", "search", "tool:sums.work status:200 caller:demo")
    assert len(made) == 1
    decided = host.agtp_json("audit", "search", "operator:berta")
    assert any(each["payload"].get("method") == "CONFIRM" for each in decided)
    assert {each["payload"]["operator"]["name"] for each in decided} == {"berta"}


def test_an_operator_leaves(host: Host) -> None:
    """The next request of that key is refused; what was done before still has the name."""
    anna = add_operator(host, "anna", "administrator")
    typed(host, "agent", "deactivate", "demo", "--reason", "a test", "--cert", anna)
    typed(host, "agent", "reinstate", "demo", "--cert", anna)
    entry = '\n[[operator]]\nname = "anna"\nkey = "anna.pem"\nrole = "administrator"\n'
    host.config.write_text(host.config.read_text().replace(entry, ""))
    typed(host, "reload")
    assert "[[operator]]" in typed(host, "reload", "--cert", anna, status=1).stderr
    typed(host, "cert", "revoke", anna)
    done: list[dict[str, Any]] = host.agtp_json("audit", "search", "operator:anna")
    assert len(done) >= 2
    assert {each["payload"]["operator"]["name"] for each in done} == {"anna"}


def test_an_operator_gets_another_key(host: Host) -> None:
    """A certificate that replaces another in its file counts after a reload, and the earlier key does not."""
    former = add_operator(host, "vera", "administrator")
    typed(host, "reload", "--cert", former)
    typed(host, "cert", "issue", "client", "vera", "--ca", "state/ca.pem", "-o", "next.pem")
    for ending in ("pem", "key"):
        kept, used = (host.config.parent / f"{name}.{ending}" for name in ("former", "vera"))
        used.rename(kept)
        (host.config.parent / f"next.{ending}").rename(used)
    assert "operators' keys (vera.pem)" in typed(host, "reload").stdout
    assert "[[operator]]" in typed(host, "reload", "--cert", "former.pem", status=1).stderr
    typed(host, "reload", "--cert", "vera.pem")


def _words(host: Host) -> Path:
    """Return the file that says what the server's tool is."""
    words = host.config.parent / "words"
    words.write_text("Adds up.\nNothing else.")
    return words


def test_a_host_without_a_page_says_what_turns_it_on(host: Host) -> None:
    """For both commands, and before anybody looks for a fault in the certificate."""
    for words in (("page",), ("page", "--end-sessions")):
        refused = typed(host, *words, status=1).stderr
        assert "the host has no operators' page" in refused and "[admin]" in refused
