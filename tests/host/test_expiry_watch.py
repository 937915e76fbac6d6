"""What ends is told 14 days ahead: at start and once a day, in the log, to operators, and in numbers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from agtphost.config import examine
from agtphost.host.expiry_watch import ExpiryWatch, expiring_files, expiry_warnings
from agtphost.identity import certificates, expiry, files, revocation
from agtphost.testing.identities import key_of
from agtphost.testing.reactor import MemoryReactor
from tests.methods.granting_hosts import GrantingHost

DAY = 86_400.0
NOW = datetime(2027, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host.toml with one of everything that ends, each on a day of its own."""
    folder = tmp_path_factory.mktemp("expiry")
    authority = certificates.create_authority(now=NOW - timedelta(days=3_640))
    files.write_once(folder / "ca.pem", authority.certificate_pem, files.PUBLIC)
    for name, days in (("server", 20), ("site", 21), ("page", 22)):
        key = certificates.new_tls_key()
        made = certificates.issue_server_certificate(
            authority, key.public_key(), server_id="host.test", now=NOW, days=days
        )
        files.write_once(folder / f"{name}.pem", certificates.pem_of(made), files.PUBLIC)
        files.write_once(folder / f"{name}.key", certificates.key_pem_of(key), files.PRIVATE)
    crl = revocation.issue_list(authority, now=NOW, days=23)
    files.write_once(folder / "crl.pem", revocation.pem_of(crl), files.PUBLIC)
    for name, days in (("agents/demo/agent", 24), ("state/registrar", 25), ("peer", 26)):
        path = folder / f"{name}.pem"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = certificates.issue_client_certificate(
            authority, expiry_key(name), label=name, organization="acme", now=NOW, days=days
        )
        files.write_once(path, certificates.pem_of(made), files.PUBLIC)
    (folder / "host.toml").write_text(TOML)
    return folder


def expiry_key(name: str) -> Any:
    """A key for a certificate."""
    return key_of(name).public


TOML = """
[host]
server_id = "host.test"
state_dir = "state"
profile = "development"
[identity]
known_agents = "agents"
[tls]
certificate = "server.pem"
key = "server.key"
client_ca = "ca.pem"
client_crl = "crl.pem"
[[tls.server]]
name = "site.test"
certificate = "site.pem"
key = "site.key"
[wellknown]
listen = "ssl:8443"
certificate = "page.pem"
key = "page.key"
[lifecycle]
notify = ["agtp://other.test"]
notify_cert = "peer.pem"
notify_key = "peer.key"
"""


@contextmanager
def log_lines() -> Iterator[list[tuple[str, str]]]:
    """Levels and lines of the log."""
    lines: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        if event.get("log_namespace") == "agtphost.host.expiry_watch":
            lines.append((event["log_level"].name, formatEvent(event)))

    globalLogPublisher.addObserver(note)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(note)


EVERYTHING = {
    "authority ca.pem": 10,
    "host-certificate host.test": 20,
    "host-certificate site.test": 21,
    "https-certificate wellknown": 22,
    "revocation-list crl.pem": 23,
    "agent-certificate demo": 24,
    "client-certificate registrar": 25,
    "client-certificate [lifecycle] notify": 26,
}
"""Days from NOW."""


def test_one_place_knows_everything_that_ends(deployment: Path) -> None:
    """Each kind of file, with its end; what is missing or no certificate is told by whatever needs it."""
    config = load_without_checks(deployment)
    found = {f"{each.kind} {each.name}": each for each in expiring_files(config)}
    days = {name: round((each.ends - NOW.timestamp()) / DAY) for name, each in found.items()}
    assert days == EVERYTHING
    assert {each.kind for each in found.values()} | {expiry.GRANT} == set(expiry.KINDS)
    now = NOW.timestamp() + 9 * DAY
    told = list(expiry_warnings(config, now))
    assert [line.partition(" ends")[0] for line in told] == [
        "the authority ca.pem",
        "the host certificate host.test",
        "the host certificate site.test",
        "the https certificate wellknown",
        "the revocation list crl.pem",
    ]
    # Before they begin, certificates are refused as after their end; the authority began long ago.
    early = list(expiry_warnings(config, NOW.timestamp() - 10 * DAY))
    assert len(early) == 6 and all("is not valid before 2027-02-" in line for line in early), early


def load_without_checks(folder: Path) -> Any:
    """The configuration, as `agtp check` has it where keys are missing."""
    return examine(folder / "host.toml", {}).config


def test_what_ends_soon_is_logged_at_start_and_once_a_day(deployment: Path, tmp_path: Path) -> None:
    """Nothing 15 days ahead; a warning 14 days ahead, again a day later, and no more once it is renewed."""
    folder = tmp_path / "host"
    shutil.copytree(deployment, folder)
    config = load_without_checks(folder)
    host = GrantingHost()
    clock = MemoryReactor()
    start = NOW.timestamp() + (24 - 15) * DAY

    def now() -> float:
        return start + clock.seconds()

    for path in ("ca.pem", "server.pem", "site.pem", "page.pem", "crl.pem"):
        (folder / path).unlink()
    on: Any = SimpleNamespace(config=config, rights=host.core.services.rights, seconds=now)
    watch = ExpiryWatch(clock, lambda: on, host.directory.list_known)
    with log_lines() as lines:
        watch.startService()
        clock.advance(0)
        assert lines == []
        assert [each.name for each in watch.upcoming] == ["demo", "registrar", "[lifecycle] notify"]
        advance(clock, 1.2 * DAY)
        assert lines == [("warn", "the agent certificate of demo ends in 14 d, at 2027-03-24T23:55:00Z; "
                          "agtp agent renew demo")]  # fmt: skip
        advance(clock, 0.5 * DAY)
        assert len(lines) == 1
        advance(clock, 0.5 * DAY)
        assert sorted(line.partition(" ends")[0] for _, line in lines[1:]) == [
            "the agent certificate of demo",
            "the client certificate registrar",
        ]
        path = folder / "agents" / "demo" / "agent.pem"
        authority = certificates.create_authority(now=NOW)
        made = certificates.issue_client_certificate(
            authority, expiry_key("x"), label="demo", organization="acme", now=NOW, days=90
        )
        files.replace(path, certificates.pem_of(made), files.PUBLIC)
        seen = len(lines)
        advance(clock, 1.2 * DAY)
        assert all("demo" not in line for _, line in lines[seen:]) and len(lines) > seen
        watch.stopService()
    assert not clock.getDelayedCalls()


def advance(clock: MemoryReactor, seconds: float) -> None:
    """As time passes: in steps, so that each look is made."""
    for _ in range(int(seconds // 600)):
        clock.advance(600)


def test_grants_are_among_what_ends() -> None:
    """Those in force, named by agent and thing; they end because an operator said so, which is no warning."""
    host = GrantingHost()
    until = datetime.now(UTC) + timedelta(days=3)
    host.grant("files.*", until=until.strftime("%Y-%m-%dT%H:%M:%SZ"))
    host.grant("QUERY /words")
    watch = ExpiryWatch(host.clock, lambda: host.core.services, host.directory.list_known)
    with log_lines() as lines:
        watch.startService()
        host.clock.advance(0)
    assert [(each.kind, each.name) for each in watch.upcoming if each.kind == "grant"] == [("grant", "demo files.*")]
    assert [level for level, line in lines if "grant" in line] == [LogLevel.info.name]
    watch.stopService()
