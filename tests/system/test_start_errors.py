"""What keeps a host from starting: a status that says so, every reason with its place, and nothing left behind."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agtphost.stores.upgrade import latest
from tests import forking
from tests.system.hosting import BIN, running, sample
from tests.system.raw_link import RawLink

Change = Callable[[Path], object]


def start(config: Path) -> subprocess.CompletedProcess[str]:
    """``twistd -n agtp`` until it gives up."""
    return forking.run([BIN / "twistd", "-n", "--pidfile=", "agtp", "--config", config], cwd=config.parent)


def files(config: Path) -> set[Path]:
    """Everything in the deployment but its state directory and compiled handlers."""
    state = config.parent / "state"
    found = (path for path in config.parent.parent.rglob("*") if "__pycache__" not in path.parts)
    return {path for path in found if path != state and state not in path.parents}


def refuses(config: Path, reasons: Sequence[str]) -> str:
    """Start in vain; each reason is a pattern of what has to be said. Returns what was."""
    before = files(config)
    done = start(config)
    said = done.stdout + done.stderr
    assert done.returncode not in (0, None), said
    assert done.returncode > 0, said
    for reason in reasons:
        assert re.search(reason, said), f"{reason!r} is not in:\n{said}"
    assert "Traceback" not in said, said
    assert "agtphost ready" not in said
    assert files(config) == before
    return said


def edited(*pairs: tuple[str, str], append: str = "") -> Change:
    def change(config: Path) -> None:
        text = config.read_text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        config.write_text(text + append)

    return change


def endpoint(name: str, old: str, new: str) -> Change:
    def change(config: Path) -> None:
        file = config.parent / "endpoints" / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


CONFIGURATION: dict[str, tuple[Change, list[str]]] = {
    "no TOML": (edited(append="\n[listen\n"), [r"host\.toml:\d+"]),
    "many mistakes, each with its line": (
        edited(
            ('server_id = "localhost"', 'server_id = "local host"'),
            ('profile = "development"', 'profile = "staging"'),
            ('address = "127.0.0.1"', 'address = "here"'),
            ("timeout = 30", "timeout = -30\ncolour = 1"),
        ),
        [
            r"host\.toml:8\b.*server_id",
            r"host\.toml:11\b.*profile",
            r"host\.toml:15\b.*address",
            r"host\.toml:42\b.*timeout",
            r"host\.toml:43\b.*colour",
        ],
    ),
    "an unknown key, with what was meant": (edited(("port = ", "prot = ")), [r"host\.toml:16\b.*prot\b.*port"]),
    "a function that is not there": (
        endpoint("rooms.toml", "handlers.rooms.book", "handlers.rooms.build"),
        [r"rooms\.toml:\d+.*handlers\.rooms.*build"],
    ),
    "a module that is not there": (
        endpoint("text.toml", "handlers.text.echo", "handlers.missing.echo"),
        [r"text\.toml:\d+.*handlers\.missing"],
    ),
    "an endpoint that is none": (
        endpoint("library.toml", 'method = "QUERY"', 'method = "query"'),
        [r"library\.toml:2\b.*query"],
    ),
    "an agent that is none": (
        lambda config: (config.parent / "agents" / "librarian.agent.json").write_text("{"),
        [r"librarian\.agent\.json"],
    ),
}


@pytest.mark.parametrize("name", CONFIGURATION)
def test_a_broken_deployment_is_refused(tmp_path: Path, name: str) -> None:
    """Exit status 1; every mistake is printed with file and line; nothing is created outside of the state directory."""
    change, reasons = CONFIGURATION[name]
    config = sample(tmp_path)
    change(config)
    refuses(config, reasons)


def test_mistakes_of_different_files_are_told_at_once(tmp_path: Path) -> None:
    """Two broken endpoint files and a missing module are three lines of one refusal."""
    config = sample(tmp_path)
    for name in ("an endpoint that is none", "a function that is not there", "a module that is not there"):
        CONFIGURATION[name][0](config)
    refuses(config, [r"library\.toml:2\b", r"rooms\.toml:\d+", r"text\.toml:\d+"])


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    """The address is somebody else's: status 1, and the reason names it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        config = sample(tmp_path)
        edited((re.search(r"port = \d+", config.read_text())[0], f"port = {port}"))(config)  # type: ignore[index]
        refuses(config, [rf"cannot listen.*{port}"])


def test_production_without_keys_names_the_command(tmp_path: Path) -> None:
    """The production profile makes nothing by itself: each missing file is named, and what to run."""
    config = sample(tmp_path, edit=[('profile = "development"', 'profile = "production"')])
    said = refuses(config, [r"signing\.key", r"server\.(pem|key)", r"agtp init --production"])
    state = config.parent / "state"
    assert not state.exists() or not any(state.iterdir()), said


def change(database: Path, statement: str) -> None:
    """Do to a store at rest what nobody should."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a deployment that ran once, and answered one request."""
    with running(sample(tmp_path_factory.mktemp("original"))) as host, RawLink(host) as link:
        assert link.ask("ECHO", "/text", {"text": "one"}).status == 200
    return host.config.parent


@pytest.fixture
def at_rest(tmp_path: Path, original: Path) -> Path:
    """The ``host.toml`` of a copy of it, with its state directory in order."""
    return Path(shutil.copytree(original, tmp_path / "etc")) / "host.toml"


def store_of(config: Path) -> Path:
    return config.parent / "state" / "agtphost.sqlite3"


def test_a_store_that_is_none_is_refused_and_kept(at_rest: Path) -> None:
    """Another program's file in the store's place is neither used nor changed."""
    file = store_of(at_rest)
    for octets in (b"a letter to a friend\n" * 100, b"SQLite format 3\0" + bytes(4080)):
        file.write_bytes(octets)
        refuses(at_rest, [r"agtphost\.sqlite3"])
        assert file.read_bytes() == octets


def test_a_store_that_cannot_be_opened_is_refused(at_rest: Path) -> None:
    """A directory in the store's place."""
    file = store_of(at_rest)
    file.unlink()
    file.mkdir()
    refuses(at_rest, [r"agtphost\.sqlite3"])


def test_a_damaged_head_is_refused(at_rest: Path) -> None:
    """T-RB-10: a newest record that is not what was signed is an error, never a new beginning."""
    change(store_of(at_rest), "UPDATE record SET signed = zeroblob(length(signed))")
    refuses(at_rest, [r"agtphost\.sqlite3.*damaged"])


def test_a_store_of_a_later_version_is_refused_and_kept(at_rest: Path) -> None:
    """A database that a later program wrote is left as it is."""
    file = store_of(at_rest)
    change(file, f"PRAGMA user_version={latest() + 1}")
    before = file.read_bytes()
    refuses(at_rest, [rf"schema version {latest() + 1}", "later"])
    assert file.read_bytes() == before


def test_a_signing_key_that_others_can_read_is_refused(at_rest: Path) -> None:
    """T-KY: the file is named, and the command that helps."""
    key = at_rest.parent / "state" / "signing.key"
    key.chmod(0o644)
    refuses(at_rest, [r"signing\.key", "chmod 600"])


def test_a_private_key_of_another_certificate_is_refused(at_rest: Path) -> None:
    """The TLS pair has to be one."""
    state = at_rest.parent / "state"
    (state / "server.pem").write_bytes((state / "registrar.pem").read_bytes())
    refuses(at_rest, [r"server\.(pem|key)"])
