"""Backups of hosts that are at work, and what is restored of them: whole, or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.client.sync import Client
from agtphost.identity import jws
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores import Selection, open_reader
from agtphost.vocabulary import jsontext
from tests import forking
from tests.programmes import seed_of_chance
from tests.system.hosting import BIN, Host, agtp, free_port, running, sample, until


class Load:
    """Calls one after the other, each of which is acknowledged before the next."""

    def __init__(self, host: Host) -> None:
        self.acknowledged: list[str] = []
        self._over = threading.Event()
        self._host = host
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with Client(trust=self._host.state / "ca.pem") as client:
            while not self._over.is_set():
                reply = client.call(self._host.uri, "DISCOVER", "/methods")
                assert reply.status == 200 and reply.audit_id
                self.acknowledged.append(reply.audit_id)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with running(sample(tmp_path_factory.mktemp("backed"))) as started:
        yield started


@pytest.fixture(scope="module")
def backup(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With keys, of a host that is at rest."""
    file = tmp_path_factory.mktemp("made") / "host.tar"
    done = host.agtp("backup", str(file), "--with-keys")
    assert done.returncode == 0, done.stdout + done.stderr
    return file


def test_a_backup_under_load_has_all_that_was_acknowledged(host: Host, tmp_path: Path) -> None:
    """
    Calls go on while it is made; what was restored verifies, has every record acknowledged before it began, and serves
    on: its next record follows the last one. Who made it is on record, with the digest of the file.
    """
    load = Load(host)
    try:
        until(lambda: len(load.acknowledged) > 20)
        before = list(load.acknowledged)
        told = host.agtp_json("backup", str(tmp_path), "--with-keys")
        until(lambda: len(load.acknowledged) > len(before))
    finally:
        load.end()
    file = Path(told["file"])
    assert file.parent == tmp_path and file.stat().st_mode & 0o777 == 0o600 and told["verified"] is True
    begun, made = (host.agtp_json("audit", "get", each)["payload"]["extra"]["backup"] for each in told["on_record"])
    assert begun["moment"] == "begins" and begun["by"].startswith("key:")
    assert made == {"moment": "made", "by": begun["by"], "sha256": told["sha256"], "records": told["records"]}

    restored = agtp(
        "restore", str(file), "--to", str(tmp_path / "new"), "--signing-key", str(host.state / "signing.pub")
    )
    assert restored.returncode == 0 and "restored: " in restored.stdout, restored.stderr
    reader = open_reader(f"sqlite:{tmp_path / 'new' / 'state' / 'agtphost.sqlite3'}")
    held = {record.audit_id for record in reader.records(Selection())}
    reader.close()
    assert len(held) == told["records"] and set(before) <= held
    config = tmp_path / "new" / "host.toml"
    config.write_text(re.sub(r"port = [0-9]+", f"port = {free_port()}", config.read_text()))
    with running(config) as again:
        assert again.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
        verified = again.agtp_json("audit", "verify")
        assert verified["records"] > told["records"]
        living = agtp("restore", str(file), "--to", str(config.parent))
        assert living.returncode == 2 and "is not empty" in living.stderr


def test_private_keys_are_left_out_unless_asked_for(host: Host, tmp_path: Path) -> None:
    """And it is told which are needed."""
    done = host.agtp("backup", str(tmp_path / "a.tar"))
    assert done.returncode == 0 and "without private keys" in done.stdout
    assert b"PRIVATE KEY" not in (tmp_path / "a.tar").read_bytes()
    restored = agtp("restore", str(tmp_path / "a.tar"), "--to", str(tmp_path / "new"), "--json")
    (note,) = [note for note in json.loads(restored.stdout)["notes"] if "private keys are not in the backup" in note]
    assert "state/signing.key" in note and not (tmp_path / "new" / "state" / "signing.key").exists()


def refused(file: Path, folder: Path, *words: str) -> str:
    """What a restore in vain says; it leaves nothing."""
    done = agtp("restore", str(file), "--to", str(folder / "new"), *words)
    assert done.returncode in (2, 4), (done.stdout, done.stderr)
    assert [each.name for each in folder.iterdir() if each != file] == []
    return done.stderr


def test_what_is_cut_off_is_refused(backup: Path, tmp_path: Path) -> None:
    """Anywhere: in the store, in the list, at its end."""
    octets = backup.read_bytes()
    chance = random.Random(seed_of_chance())
    file = tmp_path / "cut.tar"
    listed = octets.rindex(b"manifest.jws")
    for length in (0, 100, 512, *(chance.randrange(1024, listed) for _ in range(3)), listed + 600, listed + 2_000):
        file.write_bytes(octets[:length])
        said = refused(file, tmp_path)
        assert "truncated" in said or "is not a backup" in said or "cannot be read" in said, (length, said)


def repacked(backup: Path, target: Path, changed: dict[str, bytes], key: SigningKey | None = None) -> None:
    """A backup with other files; its list is made anew, and signed by another key where one is given."""
    with tarfile.open(backup) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            stream = old.extractfile(member)
            assert stream is not None
            octets = changed.get(member.name, stream.read())
            if member.name == "manifest.jws" and key is not None:
                told = jws.parse_unverified(octets)
                for name, content in changed.items():
                    told["files"][name].update(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
                signer = fastest_signer(key)
                head = jws.protected_header(signer, "agtphost-backup+jws")
                octets = jws.compact(head, jsontext.encode(told), signer).encode()
            member.size = len(octets)
            new.addfile(member, io.BytesIO(octets))


def contents(backup: Path, name: str) -> bytes:
    with tarfile.open(backup) as opened:
        stream = opened.extractfile(name)
        assert stream is not None
        return stream.read()


STORE = "state/agtphost.sqlite3"


def test_what_was_changed_is_refused(host: Host, backup: Path, tmp_path: Path) -> None:
    """A file; a file and its digest in the list; records, signed by a key that comes along in place of the host's."""
    file, other = tmp_path / "changed.tar", SigningKey.generate()
    handler = {"handlers/text.py": b"import os\n"}
    repacked(backup, file, handler)
    assert "handlers/text.py does not match its SHA-256" in refused(file, tmp_path)
    repacked(backup, file, handler, other)
    assert "the signature of its list does not verify" in refused(file, tmp_path)
    repacked(backup, file, {"state/signing.pub": other.public.pem, **handler}, other)
    assert "does not verify" in refused(file, tmp_path)
    work = tmp_path.parent / f"{tmp_path.name}-work"
    work.write_bytes(contents(backup, STORE))
    database = sqlite3.connect(work)
    database.execute("DELETE FROM record WHERE number = (SELECT max(number) - 1 FROM record)")
    database.commit()
    database.close()
    repacked(backup, file, {STORE: work.read_bytes()}, SigningKey.load(host.state / "signing.key"))
    assert "does not verify" in refused(file, tmp_path), "also by whoever has the host's key: the chain is broken"
    # The control: repacked with nothing changed, it is whole.
    repacked(backup, file, {}, SigningKey.load(host.state / "signing.key"))
    assert agtp("restore", str(file), "--to", str(tmp_path / "new")).returncode == 0


def test_what_is_of_somebody_else_is_refused(host: Host, backup: Path, tmp_path: Path) -> None:
    """Another program's archive, another host's backup under the key of this one, and a store of a later version."""
    file = tmp_path / "foreign.tar"
    with tarfile.open(file, "w") as foreign:
        foreign.add(host.config, "host.toml")
    assert "not a backup of agtphost" in refused(file, tmp_path)
    file.write_text("not even an archive")
    assert "is not a backup" in refused(file, tmp_path)
    pinned = tmp_path.parent / f"{tmp_path.name}.pub"
    pinned.write_bytes(SigningKey.generate().public.pem)
    shutil.copy(backup, file)
    assert "does not verify" in refused(file, tmp_path, "--signing-key", str(pinned))
    key = SigningKey.load(host.state / "signing.key")
    told = jws.parse_unverified(contents(backup, "manifest.jws"))
    signer = fastest_signer(key)
    for schema, remedy in ((99, "a later one"), (8, "audit export")):
        header = jws.protected_header(signer, "agtphost-backup+jws")
        other = jws.compact(header, jsontext.encode({**told, "schema": schema}), signer)
        repacked(backup, file, {"manifest.jws": other.encode()})
        said = refused(file, tmp_path)
        assert f"schema version {schema}" in said and remedy in said


def test_a_damaged_store_has_no_backup(backup: Path, tmp_path: Path) -> None:
    """What does not verify is said at once, and no file is left that looks like one."""
    assert agtp("restore", str(backup), "--to", str(tmp_path / "old")).returncode == 0
    store = tmp_path / "old" / STORE
    database = sqlite3.connect(store)
    database.execute("UPDATE record SET signed = zeroblob(length(signed)) WHERE number = 1")
    database.commit()
    database.close()
    done = agtp("backup", str(tmp_path / "bad.tar"), cwd=tmp_path / "old")
    assert done.returncode == 4 and "the copy does not verify" in done.stderr, done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_what_is_killed_leaves_nothing_that_looks_whole(host: Host, backup: Path, tmp_path: Path, command: str) -> None:
    """Killed as soon as it has begun: there is no file, or no directory, of the name; what lies there is no backup."""
    target = tmp_path / "target"
    words = ["backup", str(target)] if command == "backup" else ["restore", str(backup), "--to", str(target)]
    for _ in range(20):
        process = forking.start(
            [BIN / "agtp", *words], cwd=host.config.parent, stdout=subprocess.DEVNULL, env=dict(os.environ)
        )
        until(lambda process=process: any(tmp_path.iterdir()) or process.poll() is not None, pause=0.001)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        if process.wait(30) == -signal.SIGKILL and not target.exists():
            break
        # It was through before it was killed, as the machine had other things to do.
        assert target.exists()
        for each in tmp_path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    assert not target.exists(), "it was killed before it was through"
    (partial,) = tmp_path.iterdir()
    assert partial.name.endswith(".partial")
    if command == "backup" and (partial / "backup").exists():
        assert agtp("restore", str(partial / "backup"), "--to", str(tmp_path / "new")).returncode != 0
    assert host.agtp(*words).returncode == 0, "once more, and it is there"
    assert target.exists()


def test_what_a_witness_has_seen_since_is_told(tmp_path: Path) -> None:
    """
    The witness file lies on another disk and has seen more than the backup: the restore says so, the host does not
    start, and does once the store was accepted, which is on record.
    """
    witness = tmp_path / "elsewhere" / "checkpoint.txt"
    witness.parent.mkdir()
    config = sample(tmp_path, append=f'\n[audit]\nwitness = "{witness}"\n')
    with running(config) as host:
        assert host.agtp("backup", str(tmp_path / "host.tar"), "--with-keys").returncode == 0
        for _ in range(3):
            assert host.agtp("call", "-", "DISCOVER", "/methods").returncode == 0
    restored = agtp("restore", str(tmp_path / "host.tar"), "--to", str(tmp_path / "new"))
    assert restored.returncode == 0, restored.stderr
    assert re.search(r"has seen [0-9]+ records: [1-9][0-9]* are newer than this backup", restored.stdout)
    again = Host(tmp_path / "new" / "host.toml")
    assert again.process.wait(60) == 1
    until(lambda: "records are missing" in again.output)
    accepted = agtp("audit", "accept-store", "--yes", "--reason", "disk lost", cwd=tmp_path / "new")
    assert accepted.returncode == 0, accepted.stderr
    with running(tmp_path / "new" / "host.toml") as host:
        assert host.agtp("audit", "verify").returncode == 0
