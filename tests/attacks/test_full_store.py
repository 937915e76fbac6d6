"""Honest callers beside an operator who searches, counts, exports and verifies a store with 1,000,000 records."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, cycle
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.stores import open_store
from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.cores import cores
from tests.attacks.runner import Stand, attempt, standing
from tests.attacks.site import made
from tests.page.browsing import Browser
from tests.page.test_speed import GROUP, draft_of
from tests.system.hosting import agtp, free_port

pytestmark = pytest.mark.release

RECORDS = 1_000_000
SECONDS, QUIET = 20.0, 5.0

COMMANDS = {
    "tool": ("search", "--tool", "files.read_file", "--all"),
    "path": ("search", "path:/orders/7", "-n", "200"),
    "refusals": ("search", "reason:scope-insufficient", "-n", "200"),
    "nothing": ("search", "--method", "NEVER"),
    "text": ("search", "--text", "no record has this"),
    "counts": ("search", "--count", "hour"),
    "export": ("export", "-o", "{number}.jsonl"),
    "verify": ("verify",),
}

NUMBERS = count()
"""Of all commands: an export is refused where its file exists, as after an attempt that was too slow."""


def fill(folder: Path) -> None:
    """Write the records of one agent's calls and of refusals, with the host's key."""
    state = folder / "state"
    caller = agent = json.loads((state / "agents" / "demo" / "document.json").read_text())["agent_id"]
    store = open_store(f"sqlite:{state / 'agtphost.sqlite3'}", create=True)
    signer = RecordSigner(fastest_signer(SigningKey.load(state / "signing.key")))
    writer = GroupWriter(store, signer, server_id="localhost")
    writer.load()
    for begin in range(0, RECORDS, GROUP):
        end = min(begin + GROUP, RECORDS)
        writer.write([Submission(draft_of(number, caller, agent)) for number in range(begin, end)])
    while store.index_blocks():
        pass
    store.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = made(tmp_path_factory.mktemp("full"))
    fill(config.parent)
    return config


def prepare(folder: Path) -> None:
    """
    Give a copy of the deployment a page, and have its store on disk before a measurement.

    Linux writes its 1.5 GB half a minute later.
    """
    config = folder / "host.toml"
    config.write_text(f'{config.read_text()}\n[admin]\nlisten = "ssl:{free_port()}:interface=127.0.0.1"\n')
    descriptor = os.open(folder / "state" / "agtphost.sqlite3", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.fixture
def stand(template: Path, tmp_path: Path) -> Iterator[Stand]:
    place = tmp_path / "host"
    with standing(template, place, cores(), prepare) as stand:
        yield stand
    shutil.rmtree(place)


def repeated(words: tuple[str, ...], site: Target, seconds: float) -> None:
    """Give a command again and again until the time is over."""
    end = time.monotonic() + seconds
    given = 0
    while not given or time.monotonic() < end:
        number = next(NUMBERS)
        done = agtp("audit", *(word.format(number=number) for word in words), cwd=site.config.parent, timeout=600)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
        given += 1
    print(f"{given} commands: {words[0]} {words[1] if words[1:] else ''}")


def watch_page(site: Target, seconds: float) -> None:
    """Look at one view of the page after the other, one each second as a quick reader, until the time is over."""
    done = agtp("page", "--json", cwd=site.config.parent)
    assert done.returncode == 0, done.stderr
    url = json.loads(done.stdout)["url"]
    browser = Browser(urlsplit(url).port or 0, site.state / "ca.pem")
    assert browser.enter(url).status == 200
    end, slowest = time.monotonic() + seconds, 0.0
    views = cycle(("/", "/calls?from=-1h", "/calls?filter=status:403", "/tools", "/agents", "/evidence"))
    looks = 0
    while time.monotonic() < end:
        begun, path = time.monotonic(), next(views)
        answer = browser.get(path)
        assert answer.status == 200, (path, answer.status, answer.text[-500:])
        slowest, looks = max(slowest, time.monotonic() - begun), looks + 1
        time.sleep(max(0.0, begun + 1.0 - time.monotonic()))
    print(f"{looks} views, the slowest in {slowest:.2f} s")


def work_together(site: Target, seconds: float) -> None:
    """Four operators search, count, export and watch the page; none of them starves another."""
    works = [partial(repeated, COMMANDS[name]) for name in ("text", "counts", "export")]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, site, seconds) for work in (*works, watch_page)]:
            done.result()


@pytest.mark.parametrize("name", [*COMMANDS, "four"])
def test_callers_do_not_wait_for_operators(stand: Stand, name: str) -> None:
    """The rule of docs/threats.rst holds beside each: twice the p99 of the quiet time, and no call fails."""
    operator = Attack(
        name=f"operators-{name}",
        who="operator",
        says="Operators look at what a host has recorded.",
        run=partial(repeated, COMMANDS[name]) if name in COMMANDS else work_together,
        memory=400 * MIB,
        disk=4_000 * MIB,
        lasts=600.0,
    )
    for _ in range(3):
        result = attempt(stand, operator, seconds=SECONDS, quiet=QUIET)
        said = f"p99 {result.quiet * 1000:.1f} -> {result.during * 1000:.1f} ms of {result.kind}"
        print(f"{name}: {said}, {result.seconds:.1f} s of processor in {result.lasted:.1f} s")
        if result.held or result.failures:
            break
    assert result.held, [*result.failures, *result.slow]
