"""Metrics, health and readiness of real hosts, as Prometheus and orchestrators read them."""

from __future__ import annotations

import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from agtphost.stores import Search, open_reader
from tests.metrics.promql import expressions, named
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.raw_link import RawLink
from tests.system.scraping import ask, readiness, scrape, total

SECRETS = ("LEAKY", "task-of-nobody-else", "/leaky/path", "leaky-session")


def deployed(folder: Path, listen: str, more: str = "", append: str = "") -> Path:
    """The sample host with metrics."""
    return sample(folder, append=f'\n[metrics]\nlisten = "{listen}"\n{more}{append}')


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Host]:
    config = deployed(
        tmp_path_factory.mktemp("metrics"),
        f"tcp:{port}:interface=127.0.0.1",
        "agents = true\n",
        "\n[log]\naccess = true\n",
    )
    with running(config) as host:
        yield host


@pytest.fixture(scope="module")
def demo(host: Host) -> Iterator[Client]:
    agent = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as found:
        yield found


def echo(host: Host, demo: Client, text: str = "the quick brown fox", **options: str) -> Reply:
    return demo.call(host.uri, "ECHO", "/text", {"text": text}, **options)  # type: ignore[arg-type]


def test_calls_are_counted(host: Host, demo: Client, port: int) -> None:
    """Answers and refusals over real TLS, each once, with their durations; and what is in the store."""
    before = scrape(port)
    for _ in range(5):
        assert echo(host, demo).status == 200
    assert demo.call(host.uri, "ECHO", "/nothing-is-here", {}).status == 404
    # The answer goes out first; who is told of the record is told right after.
    until(lambda: total(scrape(port), "agtphost_calls_total") - total(before, "agtphost_calls_total") == 6)
    after = scrape(port)

    def more(name: str, **labels: str) -> float:
        return total(after, name, **labels) - total(before, name, **labels)

    assert more("agtphost_calls_total", method="ECHO", status="200", reason="") == 5
    assert more("agtphost_calls_total", method="ECHO", status="404") == 1
    assert more("agtphost_call_seconds_count", method="ECHO") == 6
    assert 0 < more("agtphost_call_seconds_sum", method="ECHO") < 60
    assert more("agtphost_agent_calls_total", agent="demo") == 6
    assert more("agtphost_records_sealed_total", durable="true") == 6 == more("agtphost_records")
    assert 1 <= more("agtphost_commit_seconds_count") <= 6
    assert more("agtphost_commit_records_sum") == 6
    reader = open_reader(f"sqlite:{host.state / 'agtphost.sqlite3'}")
    assert reader.latest(None, 1, Search()).records[0][0] == after["agtphost_records", ()]
    reader.close()


def test_the_moment_is_told(host: Host, demo: Client, port: int) -> None:
    """Connections, upstreams, evidence, certificates, room, and which program it is."""
    assert echo(host, demo).status == 200
    found = scrape(port)
    for name in ("agtphost_ready", "agtphost_ledger_healthy"):
        assert found[name, ()] == 1
    assert found["agtphost_connections", ()] >= 1
    assert found["agtphost_calls_in_flight", ()] == found["agtphost_calls_waiting", ()] == 0
    assert total(found, "agtphost_upstream_state", protocol="mcp", server="files", state="idle") == 1
    assert total(found, "agtphost_upstream_state", protocol="mcp", server="files") == 1
    assert total(found, "agtphost_upstream_restarts_total", server="files") == 0
    assert 0 < found["agtphost_certificate_days_left", ()] < 4_000
    assert found["agtphost_store_free_bytes", ()] > 1_000_000
    assert found["agtphost_escalations_open", ()] == 0
    assert total(found, "agtphost_build_info") == 1
    assert found["process_cpu_seconds_total", ()] > 0
    # Once nothing comes, the checkpoint covers every record.
    until(lambda: scrape(port).get(("agtphost_checkpoint_age_seconds", ())) == 0)


def test_nothing_that_a_caller_chose_is_in_it(host: Host, demo: Client, port: int) -> None:
    """Neither methods that were made up, nor paths, tasks, sessions or Agent-IDs."""
    agent = host.state / "agents" / "demo"
    agent_id = json.loads((agent / "document.json").read_text())["agent_id"]
    before = total(scrape(port), "agtphost_calls_total")
    link = RawLink(host)
    link.ask("LEAKY", "/leaky/path", {"leaky": "body"}, Task_ID="task-of-nobody-else", Session_ID="leaky-session")
    link.close()
    echo(host, demo)
    until(lambda: total(scrape(port), "agtphost_calls_total") - before == 2)
    text = ask(port, "/metrics")[2].decode()
    assert 'method="other"' in text
    assert not [secret for secret in (*SECRETS, agent_id) if secret in text]


def test_health_and_readiness(host: Host, port: int) -> None:
    """Both say yes; nothing but reading is answered, and nobody who came by another name."""
    assert ask(port, "/healthz")[0] == 200
    assert readiness(port) == (200, {"status": "ready"})
    assert ask(port, "/metrics", method="HEAD")[2] == b""
    assert ask(port, "/metrics", method="POST")[0] == 405
    assert ask(port, "/metrics/", headers={})[0] == 404
    assert ask(port, "/metrics", headers={"Host": "evil.example"})[0] == 421
    assert ask(port, "/metrics", headers={"Origin": "https://evil.example"})[0] == 403


LINE = re.compile(r"\{\"kind\":\"agtp\".*?\}")


def told(host: Host) -> list[dict[str, object]]:
    """The lines of calls in the host's log."""
    return [json.loads(found[0]) for line in list(host.lines) if (found := LINE.search(line)) is not None]


def test_every_call_has_a_line_in_the_access_log(host: Host, demo: Client) -> None:
    """One each, by Audit-ID, of answers and of refusals; what a caller chose can neither add a line nor be long."""
    answers = [echo(host, demo), demo.call(host.uri, "ECHO", "/nothing-is-here", {"secret": "in-the-body"})]
    named = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json"}
    payload = {"tool": "files.read_file", "arguments": {"path": "welcome.txt"}}
    narrow = demo.call(host.uri, "EXECUTE", "/", {**named, "payload": payload}, scopes=("documents:query",))
    answers.append(narrow)
    audit_ids = [answer.audit_id for answer in answers]
    until(lambda: set(audit_ids) <= {line["audit_id"] for line in told(host)})
    lines = {line["audit_id"]: line for line in told(host)}
    first, second, third = (lines[audit_id] for audit_id in audit_ids)
    assert [first[name] for name in ("caller", "method", "path", "status", "reason", "durable")] == [
        *("demo", "ECHO", "/text", 200, "", True),
    ]
    assert 0 < float(str(first["ms"])) < 60_000
    assert (first["called"], first["tool"], first["rule"], first["scopes"]) == ("ECHO /text", "", "", [])
    assert (third["caller"], third["called"], third["tool"]) == ("demo", "files.read_file", "files.read_file")
    assert third["scopes"] == ["mcp:tools:execute"] and re.fullmatch(r"host\.toml:[0-9]+", str(third["rule"]))
    assert (second["status"], second["path"]) == (404, "/nothing-is-here") and second["reason"]
    assert len(told(host)) == len(lines), "one line each"
    link = RawLink(host)
    link.ask("ECHO", "/" + "long" * 200, {})
    link.close()
    until(lambda: any(str(line["path"]).startswith("/longlong") for line in told(host)))
    assert max(len(str(line["path"])) for line in told(host)) == 256
    assert "in-the-body" not in host.output


def test_it_shares_a_listener_over_tls(tmp_path: Path) -> None:
    """One port for the bootstrap document and for metrics, with the host's own certificate."""
    shared = free_port()
    wellknown = f'\n[wellknown]\nlisten = "ssl:{shared}:interface=127.0.0.1"\ndomain = "localhost"\n'
    config = deployed(tmp_path, f"ssl:{shared}:interface=127.0.0.1", append=wellknown)
    with running(config) as host:
        tls = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
        assert ask(shared, "/.well-known/agtp", tls=tls, name="localhost")[0] == 200
        found = scrape(shared, tls=tls, name="localhost")
        assert found["agtphost_ready", ()] == 1
        with pytest.raises((ConnectionError, OSError, ValueError)):
            scrape(shared)


def test_an_eager_upstream_that_is_down_keeps_a_host_from_being_ready(tmp_path: Path) -> None:
    """One that is started on demand does not; health says yes all the while."""
    port = free_port()
    broken = json.dumps([sys.executable, "-c", "raise SystemExit(3)"])
    servers = "".join(
        f'\n[[mcp.server]]\nname = "{name}"\ncommand = {broken}\nstart = "{start}"\n'
        for name, start in (("needed", "eager"), ("spare", "lazy"))
    )
    with running(deployed(tmp_path, f"tcp:{port}:interface=127.0.0.1", append=servers)) as host:
        assert not told(host), "nobody asked for an access log"
        until(lambda: total(scrape(port), "agtphost_upstream_restarts_total", server="needed") > 0)
        status, said = readiness(port)
        assert (status, said["status"]) == (503, "not ready")
        assert [reason["what"] for reason in said["reasons"]] == ["upstream"]
        assert said["reasons"][0]["why"].startswith("mcp.needed is ")
        assert ask(port, "/healthz")[0] == 200
        found = scrape(port)
        assert found["agtphost_ready", ()] == 0
        assert total(found, "agtphost_upstream_state", server="spare", state="idle") == 1


def test_a_host_that_records_nothing_is_not_ready(tmp_path: Path) -> None:
    """Less is free than has to be: calls are 503, readiness says why, and what was turned away is counted."""
    port = free_port()
    floor = f"\n[store]\nfree_space_floor = {10**17}\n"
    with running(deployed(tmp_path, f"tcp:{port}:interface=127.0.0.1", append=floor)) as host:
        status, said = readiness(port)
        assert (status, [reason["what"] for reason in said["reasons"]]) == (503, ["ledger"])
        agent = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key", retries=0) as demo:
            assert echo(host, demo).status == 503
        found = scrape(port)
        assert found["agtphost_ledger_healthy", ()] == 0
        assert total(found, "agtphost_calls_total", status="503", reason="store-unavailable") == 1
        assert total(found, "agtphost_records_sealed_total", durable="false") == 1
        assert total(found, "agtphost_agent_calls_total") == 0


PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.rst"


def test_the_page_shows_what_a_host_says(tmp_path: Path) -> None:
    """docs/metrics.rst: what its commands show is what a host answers, and its table has every metric of the host."""
    page, port = PAGE.read_text(), free_port()
    broken = json.dumps([sys.executable, "-c", "raise SystemExit(3)"])
    servers = f"""
[[mcp.server]]
name = "needed"
command = {broken}

[[mcp.server]]
name = "spare"
command = {broken}
start = "lazy"
"""
    with running(deployed(tmp_path, f"tcp:{port}:interface=127.0.0.1", append=servers)) as host:
        agent = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=agent / "agent.pem", key=agent / "agent.key") as demo:
            for _ in range(5):
                assert echo(host, demo).status == 200
            assert demo.call(host.uri, "ECHO", "/nothing-is-here", {}).status == 404
            until(lambda: total(scrape(port), "agtphost_calls_total") == 6)
            narrowed = demo.call(host.uri, "QUERY", "/library/9780140449136", {}, scopes=("knowledge:query",))
            assert narrowed.status == 262
        until(lambda: total(scrape(port), "agtphost_missing_scopes_total") == 1)
        until(lambda: "mcp.needed is backoff" in str(readiness(port)))
        shown = dict(re.findall(r"curl -s \S+:9480(\S+)\n((?:.+\n)+)", page))
        assert set(shown) == {"/healthz", "/readyz", "/metrics"}
        for path, block in shown.items():
            said = ask(port, path)[2].decode()
            for line in map(str.strip, block.splitlines()):
                # An upstream that fails is tried again and again: in the meantime it is another state.
                if path == "/readyz":
                    until(lambda line=line: line in ask(port, "/readyz")[2].decode())
                else:
                    assert f"{line}\n" in f"{said}\n", f"{line}\n{said}"
        every = {name for name, _ in scrape(port)}
        found = scrape(port)
    (wanted,) = [dict(labels) for name, labels in found if name == "agtphost_missing_scopes_total"]
    expected = {"called": "QUERY /library/{isbn}", "scope": "documents:query", "agent": ""}
    assert {**wanted, **expected} == wanted and wanted["rule"].startswith("endpoints/library.toml:")
    assert total(found, "agtphost_called_total", called="QUERY /library/{isbn}", outcome="refused") == 1
    names = {name for name in every if name.startswith("agtphost_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    rows = set(re.findall(r"\* - ``(agtphost_\w+)``", page))
    only_with_more = {
        "agtphost_agent_calls_total",
        "agtphost_person_calls_total",
        "agtphost_witness_age_seconds",
        "agtphost_revocation_list_days_left",
        "agtphost_spans_lost_total",
    }
    only_with_more |= {row for row in rows if row.startswith("agtphost_quic_")}
    assert families | only_with_more == rows
    # What alerts and dashboard ask for is what this host told, and not what a test made up.
    asked = set[str]().union(*(named(expression)[0] for expression in expressions()))
    assert len(asked) > 15 and asked - every - {"up"} <= only_with_more
