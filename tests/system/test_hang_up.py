"""SIGHUP says for every kind of file what it took and what it left."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agtphost.host.reload_plan import NEEDS_RESTART, RELOADABLE
from agtphost.identity.certificates import (
    create_authority,
    issue_server_certificate,
    key_pem_of,
    new_tls_key,
    pem_of,
)
from agtphost.identity.keys import SigningKey
from tests.system.hosting import Host, free_port, running, sample, until
from tests.vocabulary.test_catalog_set import document

FURTHER = """
[catalog]
path = "catalog.json"
[query]
documents = "library"
[wellknown]
listen = "ssl:%d:interface=127.0.0.1"
certificate = "https.pem"
key = "https.key"

[methods]
standard = ["SIGN"]

[[methods.signing_key]]
name = "organization"
key = "organization.key"
scopes = ["documents:query"]

[[operator]]
name = "anna"
key = "anna.pub"
role = "viewer"
"""

LOCAL_HANDLER = """type = "registered_function"
function = "handlers.text.echo"
"""
OUTER_HANDLER = """type = "external_service"
url = "https://localhost:9/"
method = "POST"
headers = { Authorization = "file:../outer.secret" }
"""

OUTER_ERRORS = [
    *("upstream_timeout", "upstream_connection_error", "upstream_malformed_response"),
    *("upstream_authentication_failed", "upstream_error"),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all; every test changes a file of its own kind."""
    waits = [
        ('python_path = ["."]', 'python_path = ["."]\nreload = false'),
        ('agents = "agents"', 'agents = "agents"\ntrusted_issuers = ["file:issuer.pub"]'),
    ]
    config = sample(tmp_path_factory.mktemp("hang-up"), edit=waits, append=FURTHER % free_port())
    (config.parent / "catalog.json").write_text(json.dumps(document("1.5.0")))
    (config.parent / "library").mkdir()
    (config.parent / "library" / "one.txt").write_text("One.")
    key, now = new_tls_key(), datetime.now(UTC)
    authority = create_authority(now=now)
    issued = issue_server_certificate(authority, key.public_key(), server_id="localhost", now=now)
    (config.parent / "https.pem").write_bytes(pem_of(issued))
    (config.parent / "https.key").write_bytes(key_pem_of(key))
    (config.parent / "https.key").chmod(0o600)
    SigningKey.generate().save(config.parent / "organization.key")
    for name in ("anna.pub", "issuer.pub"):
        replace_public_key(name)(config.parent)
    outer = (config.parent / "endpoints" / "text.toml").read_text().replace('"/text"', '"/outer"')
    outer = outer.replace(LOCAL_HANDLER, OUTER_HANDLER).replace("errors = []", f"errors = {json.dumps(OUTER_ERRORS)}")
    (config.parent / "endpoints" / "outer.toml").write_text(outer)
    (config.parent / "outer.secret").write_text("one")
    with running(config) as started:
        yield started


def summary(host: Host) -> str:
    """SIGHUP, and its last line."""
    seen = len(host.lines)
    host.process.send_signal(signal.SIGHUP)
    last = re.compile(r"SIGHUP: (taken: .*; waiting for a restart: .*; failed: .*)")
    until(lambda: any(last.search(line) for line in host.lines[seen:]), 60)
    found = next(match for line in host.lines[seen:] if (match := last.search(line)))
    return found[1]


def part(line: str, name: str) -> str:
    """What stands under one heading of it."""
    found = re.search(rf"{name}: (.*?)(?:; (?:waiting for a restart|failed): |$)", line)
    assert found is not None, line
    return found[1]


def touch(name: str, text: str = "\n") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / name
        file.write_text(file.read_text() + text)

    return change


def new_agent(folder: Path) -> None:
    (folder / "agents" / "newcomer.agent.json").write_text('{"name": "newcomer", "description": "New."}')


def replace_key(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        SigningKey.generate().save(folder / name)

    return change


def replace_public_key(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(SigningKey.generate().public.pem)

    return change


KINDS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "configuration": (touch("host.toml", "[limits]\nrequest_timeout = 50\n"), "taken", "[limits]"),
    "recipes": (touch("recipes.toml"), "taken", "recipes.toml"),
    "endpoints": (touch("endpoints/rooms.toml"), "taken", "rooms.toml"),
    "handlers": (touch("handlers/rooms.py"), "waiting for a restart", "rooms.py"),
    "documents": (touch("library/one.txt"), "taken", "one.txt"),
    "agents": (new_agent, "taken", "newcomer"),
    "agents' files": (touch("agents/librarian.agent.json"), "taken", "librarian.agent.json"),
    "TLS files": (touch("state/server.pem"), "taken", "server.pem"),
    "HTTPS files": (touch("https.pem"), "taken", "https.pem"),
    "organizations' keys": (replace_key("organization.key"), "taken", "organization.key"),
    "operators' keys": (replace_public_key("anna.pub"), "taken", "anna.pub"),
    "issuers' keys": (replace_public_key("issuer.pub"), "taken", "issuer.pub"),
    "endpoints' files": (touch("outer.secret", "two"), "taken", "outer.secret"),
    "catalog": (touch("catalog.json"), "waiting for a restart", "catalog.json"),
    "signing key": (replace_key("state/signing.key"), "waiting for a restart", "signing.key"),
}


def test_every_kind_is_tried() -> None:
    """The control of the table: a kind that is added is tried too."""
    assert list(KINDS) == [*RELOADABLE, *NEEDS_RESTART]


def test_what_is_taken_and_what_is_left(host: Host) -> None:
    """Each under its heading, with the file; what was taken is not told again, and what waits is."""
    before = summary(host)
    assert before == "taken: nothing; waiting for a restart: nothing; failed: nothing"
    for change, _, _ in KINDS.values():
        change(host.config.parent)
    changed_key = SigningKey.load(host.config.parent / "organization.key")
    after, again = summary(host), summary(host)
    assert part(after, "failed") == "nothing"
    for kind, (_, heading, name) in KINDS.items():
        assert re.search(rf"(^|, ){kind} \([^)]*{name}", part(after, heading)), (kind, after)
        assert (f"{kind} (" in part(again, heading)) is (heading != "taken"), (kind, again)
    signed = host.agtp("call", host.uri, "SIGN", "payload=1", "key_id=organization", "--json")
    assert changed_key.kid in signed.stdout, signed.stderr


def test_what_fails_is_named_and_nothing_is_taken(host: Host) -> None:
    """A broken endpoint: nothing is taken, the file is told, and a key that takes a restart is told with its table."""
    file = host.config.parent / "endpoints" / "rooms.toml"
    good = file.read_text()
    file.write_text(good.replace("handlers.rooms.book", "handlers.rooms.build"))
    # A recipe needs the endpoint, and another endpoint the recipe: neither is told beside the cause.
    failed = "rooms.toml"
    try:
        line = summary(host)
    finally:
        file.write_text(good)
    assert (part(line, "taken"), part(line, "failed")) == ("nothing", failed)
    text = host.config.read_text()
    host.config.write_text(f"{text}idle_timeout = 5\n")
    try:
        line = summary(host)
    finally:
        host.config.write_text(text)
    assert "configuration" not in part(line, "taken"), "rooms.toml is as it was, and was written anew"
    assert "[limits] idle_timeout" in part(line, "waiting for a restart")
