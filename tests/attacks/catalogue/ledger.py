"""The ledger and its store: a second host on it, a copy that went back, a page that went bad."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests import forking
from tests.attacks.attack import Attack, Target
from tests.attacks.strikes import turns
from tests.system.hosting import BIN, agtp, free_port, until
from tests.system.raw_link import RawLink, client_context, request

SEED = 20_261_122
DATABASE = "agtphost.sqlite3"
START_SECONDS = 60.0


def _start(config: Path) -> tuple[int, str]:
    """A host that is not to start: its exit status, and what it says; one that serves is a failure of the attacked."""
    try:
        words = [BIN / "twistd", "-n", "--pidfile=", "agtp", "--config", config]
        done = forking.run(words, timeout=START_SECONDS, cwd=config.parent)
    except subprocess.TimeoutExpired:
        raise AssertionError("a host that should have been refused serves") from None
    return done.returncode, done.stdout + done.stderr


def _elsewhere(text: str) -> str:
    """The configuration with other ports."""
    for port in set(re.findall(r"(?:port = |# \w+ port )([0-9]+)", text)):
        text = text.replace(port, str(free_port()))
    return text


def second_host(target: Target, seconds: float) -> None:
    """On other ports, one after the other: each is refused with exit status 1, and names the host that is there."""
    config = target.config.with_name("second.toml")
    config.write_text(_elsewhere(target.config.read_text()))
    try:
        for _ in turns(seconds, most=5):
            status, said = _start(config)
            assert status == 1 and f"another host, pid {target.pid}, uses this state" in said, (status, said[-800:])
    finally:
        config.unlink()


@contextmanager
def _copy(target: Target) -> Iterator[Path]:
    """The deployment as it is at the moment, with other ports: its ``host.toml``."""
    with tempfile.TemporaryDirectory(prefix="copy-") as folder:
        place = Path(folder) / "site"
        shutil.copytree(target.config.parent, place, ignore=shutil.ignore_patterns(f"{DATABASE}*", "host.lock"))
        state = place / target.state.relative_to(target.config.parent)
        with (
            closing(sqlite3.connect(f"file:{target.state / DATABASE}?mode=ro", uri=True)) as there,
            closing(sqlite3.connect(state / DATABASE)) as here,
        ):
            there.backup(here)
        config = place / target.config.name
        config.write_text(_elsewhere(target.config.read_text()))
        yield config


def await_checkpoint(target: Target) -> None:
    """Wait until the host has stored a checkpoint; one that has just started has issued none yet, and has no tile."""
    witness = target.state / "checkpoint.txt"
    until(lambda: int(witness.read_text().split("\n")[1]) > 0)


def rollback(target: Target, seconds: float) -> None:
    """A copy of the store from before some calls, beside the newest witness file, and without any: no start."""
    witness = target.state / "checkpoint.txt"
    with RawLink(target, context=client_context(target, agent="other"), source="127.0.3.1") as link:
        link.send(request("ECHO", "/text", {"text": "older"}))
        link.answer()
    await_checkpoint(target)
    with _copy(target) as config:
        # A checkpoint may be under way that tells of nothing newer than the copy: the one after it does.
        for _ in range(2):
            before = witness.read_bytes()
            with RawLink(target, context=client_context(target, agent="other"), source="127.0.3.1") as link:
                for _ in turns(min(seconds, 5.0) / 2, most=20):
                    link.send(request("ECHO", "/text", {"text": "newer"}))
                    link.answer()
            until(lambda before=before: witness.read_bytes() != before)
        copied = config.parent / target.state.relative_to(target.config.parent) / "checkpoint.txt"
        shutil.copy(witness, copied)
        status, said = _start(config)
        assert status == 1 and "older copy was restored" in said, (status, said[-800:])
        copied.unlink()
        status, said = _start(config)
        assert status == 1 and "is not there, and the store has a checkpoint" in said, (status, said[-800:])


def corrupt_page(target: Target, seconds: float) -> None:
    """Noise in pages of a copy of the store, each alone: ``agtp audit verify`` notices, and does not break off."""
    chance = random.Random(SEED)
    with _copy(target) as config:
        database = config.parent / target.state.relative_to(target.config.parent) / DATABASE
        whole = database.read_bytes()
        for turn in turns(seconds, most=6):
            page = chance.randrange(1, len(whole) // 4096)
            octets = whole[: page * 4096] + chance.randbytes(4096) + whole[(page + 1) * 4096 :]
            database.write_bytes(octets)
            done = agtp("audit", "verify", cwd=config.parent)
            said = done.stdout + done.stderr
            assert "Traceback" not in said, (SEED, turn, page, said[-800:])
            assert done.returncode != 0, (SEED, turn, page, said[-800:])


ATTACKS = (
    Attack(
        name="second-host",
        who="operator",
        says="Another host is started on the same state directory: it is refused, and the first one serves on.",
        run=second_host,
    ),
    Attack(
        name="rollback",
        who="operator",
        says="An older copy of the store is started, with the newest witness file and without any: both are refused.",
        run=rollback,
    ),
    Attack(
        name="corrupt-page",
        who="fault",
        says="Pages of the store go bad: verification tells of each, and goes on.",
        run=corrupt_page,
    ),
)
