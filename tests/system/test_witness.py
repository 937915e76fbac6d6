"""A host witnessed by another one: cosigned checkpoints, and rollbacks and forks that no local file tells of."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import checkpoint, cosignature
from agtphost.client.sync import Client
from agtphost.identity.keys import VerifyingKey
from tests.system.hosting import Host, running, sample, until
from tests.system.test_start_errors import refuses

NAME = ('server_id = "localhost"', 'server_id = "log.test"')


class Pair:
    """A log and its witness, each with a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.log = sample(folder / "log", edit=[NAME])
        self.state = self.log.parent / "state"
        with running(self.log) as host:
            calls(host, 1)
        self.first = folder / "first.sqlite3"
        shutil.copy(self.state / "agtphost.sqlite3", self.first)
        with closing(sqlite3.connect(self.first)) as database:
            ((self.records,),) = database.execute("SELECT count(*) FROM record")
        key = self.state / "signing.pub"
        self.witness = sample(
            folder / "witness",
            edit=[('server_id = "localhost"', 'server_id = "witness.test"')],
            append=f'\n[[witness.logs]]\norigin = "log.test"\nkey = "file:{key}"\n',
        )
        port = next(line for line in self.witness.read_text().splitlines() if line.startswith("port"))
        self.uri = f"agtp://127.0.0.1:{port.split()[-1]}"
        self.plain = self.log.read_text()

    def witnessed(self, *, required: bool = False) -> Path:
        """The log's configuration, with its witness."""
        ca = self.witness.parent / "state" / "ca.pem"
        self.log.write_text(
            self.plain + f'\n[audit]\nwitnesses = ["{self.uri}"]\nwitness_seconds = 0.2\n'
            f"witness_required = {str(required).lower()}\n"
            f'[[audit.witness_host]]\nuri = "{self.uri}"\nca = "{ca}"\n'
        )
        return self.log

    def set_back(self) -> None:
        """The first database and its witness file again, and every local trace of later ones gone."""
        for name in ("agtphost.sqlite3", "agtphost.sqlite3-wal", "agtphost.sqlite3-shm", "checkpoint.txt"):
            (self.state / name).unlink(missing_ok=True)
        shutil.copy(self.first, self.state / "agtphost.sqlite3")
        with closing(sqlite3.connect(self.first)) as connection:
            (note,) = connection.execute("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
        (self.state / "checkpoint.txt").write_text(note)

    def seen(self, host: Host) -> dict[str, Any]:
        """What the witness says it has seen."""
        with Client(trust=host.state / "ca.pem") as client:
            return dict(client.call(host.uri, "QUERY", "/checkpoints", {"origin": "log.test"}).result)


def calls(host: Host, count: int) -> None:
    with Client(trust=host.state / "ca.pem") as client:
        for _ in range(count):
            assert client.call(host.uri, "DISCOVER", "/methods").status == 200


def cosigned(host: Host) -> str:
    """The newest cosigned checkpoint that the log shows; empty where there is none."""
    with Client(trust=host.state / "ca.pem") as client:
        return str(client.call(host.uri, "INSPECT", input={"target": "checkpoint"}).result.get("cosigned", ""))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The tests of this module tell one story, in the order they stand in."""
    folder = tmp_path_factory.mktemp("witness")
    for name in ("log", "witness"):
        (folder / name).mkdir()
    yield Pair(folder)


def test_checkpoints_come_back_cosigned(pair: Pair) -> None:
    """The log shows a note with its own line and the witness's; both verify, and the witness keeps the note."""
    with running(pair.witness) as witness, running(pair.witnessed()) as log:
        calls(log, 3)
        # A log that is asked all the time makes checkpoints all the same.
        until(lambda: cosigned(log) and pair.seen(witness).get("size", 0) > pair.records)
        note = cosigned(log)
        key = VerifyingKey.load(witness.state / "signing.pub")
        (found,) = cosignature.find_cosignatures(note, [key])
        own = VerifyingKey.load(pair.state / "signing.pub")
        assert found.witness == "witness.test"
        assert checkpoint.verify(note, [own]).origin == "log.test"
        assert pair.seen(witness)["size"] >= checkpoint.read(note).size
        assert pair.seen(witness)["contradictions"] == []
        shown = log.agtp("audit", "checkpoint", "--witness-key", str(witness.state / "signing.pub"))
        assert shown.returncode == 0 and "witness.test" in shown.stdout, shown.stdout + shown.stderr


def test_both_change_their_keys_and_nobody_edits_anything(pair: Pair) -> None:
    """A rotation at the log and then at the witness: cosigned checkpoints go on, and the old key's are refused."""
    with running(pair.witness) as witness, running(pair.witnessed()) as log:
        for host in (log, witness):
            before = pair.seen(witness)["size"]
            assert host.agtp_json("key", "rotate")["adopted"] is True
            calls(log, 5)
            until(lambda before=before: pair.seen(witness)["size"] >= before + 5)  # type: ignore[misc]
        own, key = (VerifyingKey.load(state / "signing.pub") for state in (pair.state, witness.state))
        until(lambda: bool(cosigned(log)) and bool(cosignature.find_cosignatures(cosigned(log), [key])))
        assert checkpoint.verify(cosigned(log), [own]).origin == "log.test"
        assert len(pair.seen(witness)["links"]) == 1 and pair.seen(witness)["contradictions"] == []
        assert "cosigns no checkpoint" not in log.output


def test_a_required_witness_that_is_away_keeps_the_host_from_starting(pair: Pair) -> None:
    """``witness_required``: nothing is served while nobody can tell what was seen last."""
    refuses(pair.witnessed(required=True), [r"is required, and cannot be asked"])


def test_an_older_copy_is_refused_by_what_the_witness_saw(pair: Pair) -> None:
    """The database and the local witness file are both set back: the other host still knows."""
    pair.set_back()
    with running(pair.witness):
        refuses(pair.witnessed(), [r"older copy was restored", r"agtp://127\.0\.0\.1"])


def test_a_fork_made_while_the_witness_was_away_is_kept_as_evidence(pair: Pair) -> None:
    """Started without its witness, the set-back log goes its own way: 409, both notes kept, and no start later."""
    with running(pair.witnessed()) as log:
        until(lambda: "could not be asked" in log.output)
        calls(log, 60)
        with running(pair.witness) as witness:
            until(lambda: pair.seen(witness)["contradictions"])
            (contradiction, *_) = pair.seen(witness)["contradictions"]
            own = [VerifyingKey.load(pair.state / "signing.pub")]
            seen, offered = (checkpoint.verify(contradiction[name], own) for name in ("seen", "offered"))
            assert seen.root != offered.root and contradiction["kind"] in ("fork", "rollback")
            until(lambda: "rolled back or forked" in log.output)
            # Records never waited for any of it.
            calls(log, 1)
    with running(pair.witness):
        refuses(pair.witnessed(), [r"was changed or replaced|older copy was restored"])
