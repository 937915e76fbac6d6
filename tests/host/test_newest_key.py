"""The signing key at a start, compared with the newest statement that a real SQLite store has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_twisted

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.state import StateTable
from agtphost.host.newest_key import (
    MOST_TOKEN_KEYS,
    NEWEST,
    SIGNING_KEY,
    TOKEN_KEY,
    check_signing_key,
    find_token_keys,
    find_unstored,
    put_statement,
    put_token_key,
)
from agtphost.identity import key_history
from agtphost.identity.key_history import SETTLING, HostKey, Succession, succeed, waiting_key
from agtphost.identity.keys import SigningKey
from agtphost.methods.continuation import LIFE, continuation_key, seal_key
from agtphost.stores import StoreError
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from tests.audit.drafting import sqlite_store
from tests.dispatch.test_durable_sessions import started
from tests.identity.samples import key_of

KEYS = [key_of(f"newest-{number}") for number in range(3)]


def link(old: int, new: int) -> Succession:
    return succeed(KEYS[old], KEYS[new], server_id="x", rotated_at=f"2026-11-27T10:0{new}:00Z")


def host_key(folder: Path, number: int, *links: Succession) -> HostKey:
    """The key of a host, with its file and its history."""
    folder.mkdir(exist_ok=True)
    KEYS[number].save(folder / "signing.key")
    for each in links:
        key_history.keep(folder / key_history.DIRECTORY, each)
    return HostKey.of_host(folder / "signing.key", folder)


async def write(folder: Path, *changes: Change) -> None:
    async with started(folder) as host:
        for change in changes:
            await host.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(change,)))


def check(store: Path, key: SigningKey | None, folder: Path) -> None:
    opened = sqlite_store(store)
    try:
        check_signing_key(opened.reader(), key, folder / "signing.key", folder)
    finally:
        opened.close()


@pytest_twisted.ensureDeferred
async def test_only_the_newest_key_and_its_successors_are_let_in(tmp_path: Path) -> None:
    """The message names both keys, the file, and what to do."""
    first, second = link(0, 1), link(1, 2)
    earlier = host_key(tmp_path / "0", 0)
    present = host_key(tmp_path / "1", 1, first)
    further = host_key(tmp_path / "2", 2, first, second)
    await write(tmp_path)
    for key in (earlier, present, further, None):
        check(tmp_path, key, tmp_path / "0")  # Without a statement every key is let in.
    await write(tmp_path, put_statement(first))
    check(tmp_path, present, tmp_path / "1")
    check(tmp_path, further, tmp_path / "2")  # The store is from an older backup.
    for key, used in ((earlier, earlier.kid), (None, "has none")):
        with pytest.raises(StoreError) as refused:
            check(tmp_path, key, tmp_path / "0")
        said = str(refused.value)
        assert used in said and present.kid in said and "signing.key" in said and "Copy the key" in said
    await write(tmp_path, put_statement(second))
    with pytest.raises(StoreError):
        check(tmp_path, present, tmp_path / "1")


@pytest_twisted.ensureDeferred
async def test_a_rotation_that_died_before_its_files_is_repeated(tmp_path: Path) -> None:
    """The new key waits in its file: the host starts with the old one, as ever."""
    folder = tmp_path / "0"
    key = host_key(folder, 0)
    await write(tmp_path, put_statement(link(0, 1)))
    with pytest.raises(StoreError):
        check(tmp_path, key, folder)
    KEYS[1].save(waiting_key(folder / "signing.key"))
    check(tmp_path, key, folder)


@pytest_twisted.ensureDeferred
async def test_a_changed_statement_is_not_believed(tmp_path: Path) -> None:
    """Both keys signed it."""
    first = link(0, 1)
    forged = replace(first, statement={**first.statement, "rotated_at": "2026-11-27T11:00:00Z"})
    await write(tmp_path, put_statement(forged))
    with pytest.raises(StoreError, match="damaged"):
        check(tmp_path, host_key(tmp_path / "1", 1, first), tmp_path / "1")


@pytest_twisted.ensureDeferred
async def test_a_history_of_files_is_taken_over_once(tmp_path: Path) -> None:
    """The statement that led to the present key; none where there was no rotation, or the store has one."""
    first = link(0, 1)
    key = host_key(tmp_path / "1", 1, first)
    async with started(tmp_path) as host:
        assert find_unstored(host.held, None) is None
        assert find_unstored(host.held, host_key(tmp_path / "0", 0)) is None
        found = find_unstored(host.held, key)
        assert found is not None and found.statement == first.statement
        await host.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(put_statement(found),)))
        item = host.held.get(SIGNING_KEY, NEWEST)
        assert item is not None and item.value == first.statement
        assert find_unstored(host.held, key) is None


def test_tokens_of_the_keys_before_the_newest_are_read_until_they_end() -> None:
    """
    Also where a rotation was repeated, or a second one followed within ten minutes. Only a process with the newest key
    reads the keys of tokens, and each of them for as long as its tokens may last.
    """
    now = [1_800_000_000.0]
    held = StateTable(lambda: now[0])

    def found(number: int, server_id: str = "x") -> list[int]:
        known = [continuation_key(key, "x") for key in KEYS]
        return [known.index(each) for each in find_token_keys(held, KEYS[number], server_id, lambda: now[0])]

    for old, new, readable in ((0, 1, [0]), (0, 1, [0]), (1, 2, [1, 0]), (1, 2, [1, 0])):
        change = put_token_key(held, KEYS[old], KEYS[new], "x", now[0] + SETTLING)
        assert change.expires_at is not None
        held.apply([ItemRow(change.kind, change.key, b"", 1, change.expires_at, jsontext.encode(change.value))])
        assert found(new) == readable
        assert not found(old) and not found(new, "y") and not find_token_keys(held, None, "x", lambda: now[0])
        now[0] += 100
    now[0] += LIFE + SETTLING - 301
    assert found(2) == [1, 0]
    now[0] += 2
    assert found(2) == [1]
    now[0] += 200
    assert not found(2)


def test_a_key_of_tokens_of_an_earlier_version_is_read() -> None:
    """It is the only one in its item, and is taken along by the next rotation."""
    held = StateTable(lambda: 1.0)
    value = {"sealed": seal_key(continuation_key(KEYS[1], "x"), continuation_key(KEYS[0], "x"))}
    held.apply([ItemRow(TOKEN_KEY, NEWEST, b"", 1, 500_000, jsontext.encode(value))])
    assert list(find_token_keys(held, KEYS[1], "x", lambda: 1.0)) == [continuation_key(KEYS[0], "x")]
    rotated = put_token_key(held, KEYS[1], KEYS[2], "x", 2.0)
    assert rotated.value is not None and len(rotated.value["earlier"]) == 1


def test_the_keys_of_tokens_of_many_rotations_have_a_bound() -> None:
    """Those of the newest stay."""
    held = StateTable(lambda: 1.0)
    keys = [key_of(f"many-{number}") for number in range(MOST_TOKEN_KEYS + 3)]
    for old, new in pairwise(keys):
        change = put_token_key(held, old, new, "x", 1.0)
        held.apply([ItemRow(change.kind, change.key, b"", 1, change.expires_at, jsontext.encode(change.value))])
    expected = [continuation_key(key, "x") for key in keys[-2 : -MOST_TOKEN_KEYS - 3 : -1]]
    assert list(find_token_keys(held, keys[-1], "x", lambda: 1.0)) == expected
