"""``agtp check`` fails if and only if a start does, with the same sentences, over a table of deployments."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agtphost.stores import upgrade
from tests import forking
from tests.programmes import sampled
from tests.system.hosting import BIN, agtp, free_port, running, sample
from tests.system.test_check import (
    breaks_agent,
    damaged_history,
    lose_store,
    lose_witness,
    no_such_name,
    older_store,
    port_taken,
    serve,
    there,
)
from tests.system.test_daemon import reasons
from tests.system.test_start_errors import CONFIGURATION, change, edited, endpoint, store_of

Arrange = Callable[[Path], object]
"""Does something to a deployment that ran once; may return a context in which it is so."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One deployment."""

    arrange: Arrange
    says: tuple[str, ...] = ()
    """Patterns, one for each thing that is wrong; none: the host starts."""

    production: bool = False
    environ: dict[str, str] = field(default_factory=dict)


def appended(text: str) -> Arrange:
    return edited(append=text)


def replaced(name: str, octets: bytes) -> Arrange:
    """A file of the state directory with another content."""
    return lambda config: (config.parent / "state" / name).write_bytes(octets)


def without(name: str) -> Arrange:
    return lambda config: (config.parent / "state" / name).unlink()


def listening(description: str) -> Arrange:
    """``endpoint`` instead of address and port."""

    def arrange(config: Path) -> None:
        text = re.sub(r"(?m)^(address = .*|port = .*)\n", "", config.read_text(), count=2)
        config.write_text(text.replace("[listen]\n", f'[listen]\nendpoint = "{description}"\n'))

    return arrange


def pipe(name: str) -> Arrange:
    """A pipe that nobody writes to, in place of a file."""
    return lambda config: os.mkfifo(config.parent / name)


def irregular(name: str, make: Callable[[Path], None]) -> Arrange:
    """Something else in place of a handler module."""

    def arrange(config: Path) -> None:
        file = config.parent / "handlers" / name
        file.unlink()
        make(file)

    return arrange


ISSUER = """
[[policies.oauth.issuer]]
expected_issuer = "https://id.example"
expected_audience = ["agents"]
jwks = "{}"
"""


def twice(config: Path) -> None:
    """An endpoint file under two names."""
    endpoints = config.parent / "endpoints"
    shutil.copy(endpoints / "text.toml", endpoints / "text_again.toml")


def of_version(version: int) -> Arrange:
    """A store that has never had a record, as a program with that schema made it."""

    def arrange(config: Path) -> None:
        file = store_of(config)
        for path in file.parent.glob(f"{file.name}*"):
            path.unlink()
        (file.parent / "checkpoint.txt").unlink(missing_ok=True)
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            for step in upgrade.steps():
                if upgrade.number_of(step) <= max(version, upgrade.first()):
                    for statement in upgrade.statements(step.read_text()):
                        database.execute(statement)
            database.execute(f"PRAGMA application_id={upgrade.APPLICATION}")
            database.execute(f"PRAGMA user_version={version}")
        file.chmod(0o600)

    return arrange


def half_made(config: Path) -> None:
    """A store that has one table of this version, and no version."""
    of_version(0)(config)
    with closing(sqlite3.connect(store_of(config), isolation_level=None)) as database:
        database.execute("PRAGMA foreign_keys=OFF")
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL").fetchall()
        for (name,) in tables:
            if name != "chain":
                database.execute(f"DROP TABLE {name}")


def hidden(package: str) -> Callable[[Path], dict[str, str]]:
    """An interpreter on which a package is not installed."""

    def arrange(config: Path) -> dict[str, str]:
        folder = config.parent.parent / "hidden"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "import sys\n"
            "class Hidden:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {package!r}:\n"
            "            raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, Hidden())\n"
        )
        return {"PYTHONPATH": str(folder)}

    return arrange


def without_extra(config: Path) -> dict[str, str]:
    edited(append='\n[audit]\nenvelope = "cose"\n')(config)
    return hidden("cbor2")(config)


SERVICE = """
[[endpoint]]
method = "FETCH"
path = "/weather"
description = "Weather."
errors = ["upstream_timeout", "upstream_connection_error", "upstream_malformed_response",
          "upstream_authentication_failed", "upstream_error"]
semantic = { intent = "Get weather.", actor = "agent", outcome = "It is known.", capability = "retrieval",
             confidence = 0.9, impact = "informational", is_idempotent = true }
input_schema = { type = "object", additionalProperties = false, properties = {} }
output_schema = { type = "object" }
handler = { type = "external_service", url = "https://weather.example", method = "GET",
            headers = { Authorization = "Bearer ${NO_SUCH_VARIABLE}" } }
"""


def with_service(config: Path) -> None:
    (config.parent / "endpoints" / "weather.toml").write_text(
        SERVICE.replace("\n          ", " ").replace("\n     ", " ")
    )


@contextmanager
def taken_for_https(config: Path) -> Iterator[None]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        edited(append=f'\n[wellknown]\nlisten = "ssl:{other.getsockname()[1]}:interface=127.0.0.1"\n')(config)
        yield


ROWS: dict[str, Row] = {
    # What is sound starts, and check says so.
    "sound": Row(arrange=lambda config: None),
    "sound, in production": Row(arrange=lambda config: None, production=True),
    **{
        f"a store of schema {version}": Row(arrange=of_version(version))
        for version in range(upgrade.first(), upgrade.latest() + 1)
    },
    # Sockets and ports.
    "the port is taken": Row(arrange=port_taken, says=("cannot listen",)),
    # A mirror that cannot be served keeps no host from starting: the log says so.
    "the port of the well-known document is taken": Row(arrange=taken_for_https),
    "no endpoint description": Row(arrange=listening("tcp:many"), says=("not an endpoint description",)),
    "systemd, wrongly described": Row(arrange=listening("systemd:domain=INET:index=one"), says=("does not describe",)),
    "systemd, an unknown domain": Row(arrange=listening("systemd:domain=BLUE:index=0"), says=("does not describe",)),
    # The configuration.
    "no TOML": Row(arrange=CONFIGURATION["no TOML"][0], says=(r"",)),
    "an unknown key": Row(arrange=edited(("port = ", "prot = ")), says=("prot",)),
    "an MCP command that is not there": Row(
        arrange=appended('\n[[mcp.server]]\nname = "absent"\ncommand = ["no-such-program"]\n'),
        says=("program that cannot be run",),
    ),
    "an extra that is not installed": Row(arrange=without_extra, says=("cbor2",)),
    "a server name of nobody": Row(arrange=no_such_name, says=("nobody",), production=True),
    # Endpoints.
    "a handler that is not there": Row(
        arrange=endpoint("text.toml", "handlers.text.echo", "handlers.text.echoes"), says=("echoes",)
    ),
    "a module that is not there": Row(
        arrange=endpoint("text.toml", "handlers.text.echo", "handlers.missing.echo"), says=("handlers.missing",)
    ),
    "an invalid schema": Row(
        arrange=endpoint("text.toml", 'type = "string"', 'type = "letters"'),
        says=("input_schema .*letters", "output_schema .*letters"),
    ),
    "an endpoint twice": Row(arrange=twice, says=("ECHO",)),
    "a variable that is not set": Row(arrange=with_service, says=("NO_SUCH_VARIABLE",)),
    "an endpoint file that is a pipe": Row(arrange=pipe("endpoints/x.toml"), says=("pipe, a socket or a device",)),
    **{
        f"a handler module that is {what}": Row(
            arrange=irregular(name, make), says=("pipe, a socket or a device",) * count
        )
        for what, name, make, count in (
            ("a pipe", "text.py", os.mkfifo, 1),
            ("a package's pipe", "__init__.py", os.mkfifo, 3),
            ("a device", "text.py", lambda file: os.symlink("/dev/zero", file), 1),
        )
    },
    # Agents.
    "a description that is a pipe": Row(arrange=pipe("agents/x.agent.json"), says=("pipe, a socket or a device",)),
    "a description that is a directory": Row(
        arrange=lambda config: (config.parent / "agents" / "x.agent.json").mkdir(), says=("it is a directory",)
    ),
    "an agent that is none": Row(
        arrange=lambda config: (config.parent / "agents" / "librarian.agent.json").write_text("{"), says=("",)
    ),
    "an issued agent that is broken": Row(arrange=breaks_agent, says=("document|signature",), production=True),
    # Keys and certificates.
    "a key that others can read": Row(
        arrange=lambda config: (config.parent / "state" / "signing.key").chmod(0o644), says=("can be read by others",)
    ),
    "a key that is missing": Row(arrange=without("signing.key"), says=("does not exist",), production=True),
    "a key that is none": Row(arrange=replaced("signing.key", b"\xff\x00 no key"), says=("signing.key",)),
    "keys of an issuer that are missing": Row(
        arrange=appended(ISSUER.format("nope.json")), says=("jwks cannot be used: it does not exist",)
    ),
    "keys of an issuer that are a directory": Row(
        arrange=appended(ISSUER.format("agents")), says=("jwks cannot be used: it is a directory",)
    ),
    "a certificate of another key": Row(
        arrange=lambda config: shutil.copy(
            config.parent / "state" / "registrar.pem", config.parent / "state" / "server.pem"
        ),
        says=("server",),
    ),
    "authorities that are none": Row(arrange=replaced("ca.pem", b"no certificate"), says=(r"ca\.pem",)),
    # The store and its witness.
    "a store of another program": Row(arrange=replaced("agtphost.sqlite3", b"a letter\n" * 500), says=("sqlite3",)),
    "a store that is a device": Row(
        arrange=appended('\n[store]\nurl = "sqlite:/dev/null"\n'),
        says=("/dev/null cannot be used as a store: it is a pipe",),
    ),
    "a witness file that has no end": Row(
        arrange=appended('\n[audit]\nwitness = "/dev/zero"\n'), says=("names a pipe, a socket or a device",)
    ),
    "a catalog that is a pipe": Row(
        arrange=lambda config: (pipe("wf")(config), appended('\n[catalog]\npath = "wf"\n')(config)),
        says=("wf",),
    ),
    "further catalogs that are missing": Row(
        arrange=appended('\n[catalog]\nversions = ["nope.json"]\n'), says=("versions.* names a file that does not",)
    ),
    "a name of an API that is none": Row(
        arrange=appended('\n[[api]]\nname = []\nbase_url = "https://x.example"\n'), says=("name must be text",)
    ),
    "a store of a later program": Row(
        arrange=lambda config: change(store_of(config), f"PRAGMA user_version={upgrade.latest() + 1}"), says=("later",)
    ),
    "a store of a development version": Row(arrange=of_version(8), says=("development version.*audit export",)),
    "a store whose number was lowered": Row(arrange=of_version(0), says=("its number was changed",)),
    "a store that cannot be brought up to date": Row(arrange=half_made, says=("cannot be used as a store",)),
    "a damaged head": Row(
        arrange=lambda config: change(store_of(config), "UPDATE record SET signed = zeroblob(length(signed))"),
        says=("damaged",),
        production=True,
    ),
    "production without its store": Row(arrange=lose_store, says=("does not exist.*--again",), production=True),
    "production without its witness": Row(arrange=lose_witness, says=("is not there",), production=True),
    "a store older than its checkpoint": Row(arrange=older_store, says=("an older copy",), production=True),
    "a damaged history of the manifest": Row(arrange=damaged_history, says=("cannot be read",), production=True),
}


@pytest.fixture(scope="module")
def developed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a development host that ran once."""
    with running(sample(tmp_path_factory.mktemp("developed"))) as host:
        pass
    return host.config.parent


@pytest.fixture(scope="module")
def produced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of a production host."""
    folder = tmp_path_factory.mktemp("produced") / "work"
    done = agtp("init", str(folder), "--production", "--server-id", "localhost", "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    serve(folder / "host.toml", "caller")
    return folder


def checked(config: Path, environ: dict[str, str]) -> list[dict[str, str]]:
    """The problems that check tells."""
    done = forking.run([BIN / "agtp", "check", config, "--json"], timeout=90, env={**os.environ, **environ})
    problems: list[dict[str, str]] = json.loads(done.stdout)["problems"]
    assert done.returncode == (2 if problems else 0), done.stderr
    return problems


def started(config: Path, environ: dict[str, str], *, sound: bool) -> list[str]:
    """What a start says is wrong; nothing where the host became ready, which it has to where it is ``sound``."""
    if sound:
        with running(config, environ=environ):
            return []
    done = forking.run(
        [BIN / "twistd", "-n", "--pidfile=", "agtp", "--config", config],
        timeout=90,
        cwd=config.parent,
        env={**os.environ, **environ},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return reasons(done.stdout + done.stderr)[1:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sampled(ROWS, 3))
def test_check_fails_where_the_start_does(developed: Path, produced: Path, tmp_path: Path, name: str) -> None:
    """The same sentences from both, each with what to do; check writes nothing."""
    row = ROWS[name]
    config = Path(shutil.copytree(produced if row.production else developed, tmp_path / "work")) / "host.toml"
    arranged = row.arrange(config)
    environ = arranged if isinstance(arranged, dict) else {}
    context = arranged if isinstance(arranged, AbstractContextManager) else None
    if context is not None:
        context.__enter__()
    try:
        before = there(config)
        problems = checked(config, environ)
        assert there(config) == before
        said = started(config, environ, sound=not row.says)
    finally:
        if context is not None:
            context.__exit__(None, None, None)
    found = [problem["message"] for problem in problems]
    assert len(said) == len(found), (said, found)
    for message in found:
        assert any(message in line for line in said), (message, said)
    assert len(found) == len(row.says), found
    for pattern in row.says:
        assert any(re.search(pattern, message) for message in found), (pattern, found)
    for problem in problems:
        assert problem["hint"] or re.search(r"agtp |Run |run |Restore", problem["message"]), problem


def test_a_socket_of_systemds_is_not_looked_at_by_check(developed: Path, tmp_path: Path) -> None:
    """Check says what it cannot know; a start without the socket ends with a sentence."""
    config = Path(shutil.copytree(developed, tmp_path / "work")) / "host.toml"
    listening("systemd:domain=INET:index=0")(config)
    alone = agtp("check", str(config))
    assert alone.returncode == 0 and "systemd passes it only to the host" in alone.stderr, alone.stderr
    assert any("systemd has handed over no socket" in line for line in started(config, {}, sound=False))
