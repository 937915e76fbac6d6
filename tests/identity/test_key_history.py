"""Signing keys that follow each other."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from agtphost.identity import key_history
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.key_history import HostKey, Succession, read_history, read_statement, succeed
from agtphost.identity.key_ring import known_keys
from agtphost.identity.keys import KeyFormatError, SigningKey
from tests.identity.samples import key_of
from tests.rows import each_row

WHEN = "2026-11-21T00:00:00Z"


def linked(old: SigningKey, new: SigningKey) -> Succession:
    return succeed(old, new, server_id="host", rotated_at=WHEN)


def test_both_keys_sign() -> None:
    """The statement is believed as it was made."""
    old, new = SigningKey.generate(), SigningKey.generate()
    assert read_statement(json.loads(json.dumps(dict(linked(old, new).statement)))) == linked(old, new)


@each_row(
    "name",
    sorted(
        linked(
            key_of("key_history test_every_changed_member_is_found 2"),
            key_of("key_history test_every_changed_member_is_found"),
        ).statement
    ),
)
def test_every_changed_member_is_found(name: str) -> None:
    """Mutated, missing, or of another type: it counts for nothing."""
    good = dict(linked(SigningKey.generate(), SigningKey.generate()).statement)
    mutated = good[name][:-2] + ("A" if good[name][-2] != "A" else "B") + good[name][-1]
    for changed in (
        {**good, name: mutated},
        {**good, name: 1},
        {key: value for key, value in good.items() if key != name},
        {**good, "more": "x"},
    ):
        with pytest.raises(KeyFormatError):
            read_statement(changed)


def test_one_signature_is_not_enough() -> None:
    """Whoever has only the new key, or only the old one, links nothing."""
    old, new, thief = SigningKey.generate(), SigningKey.generate(), SigningKey.generate()
    good = dict(linked(old, new).statement)
    octets = canonical({key: value for key, value in good.items() if not key.endswith("signature")})
    for name in ("old_signature", "new_signature"):
        with pytest.raises(KeyFormatError, match=name):
            read_statement({**good, name: encode(thief.sign(octets)).decode()})


def test_the_history_is_the_chain_to_the_present_key(tmp_path: Path) -> None:
    """Newest first; a statement about other keys adds none."""
    keys = [SigningKey.generate() for _ in range(4)]
    for old, new in itertools.pairwise(keys):
        key_history.keep(tmp_path, linked(old, new))
    key_history.keep(tmp_path, linked(SigningKey.generate(), SigningKey.generate()))
    history = read_history(tmp_path, keys[-1].public)
    assert [link.old for link in history] == [key.public for key in reversed(keys[:-1])]
    assert set(known_keys(keys[-1].public, history)) == {key.kid for key in keys}


def test_a_damaged_statement_is_named(tmp_path: Path) -> None:
    """A history that cannot be believed is no shorter history."""
    old, new = SigningKey.generate(), SigningKey.generate()
    key_history.keep(tmp_path, linked(old, new))
    file = tmp_path / f"{old.kid}.json"
    file.write_text(file.read_text().replace(WHEN, "2027-01-01T00:00:00Z"))
    with pytest.raises(KeyFormatError, match=old.kid):
        read_history(tmp_path, new.public)


def test_a_key_does_not_follow_itself() -> None:
    """It would say nothing."""
    key = SigningKey.generate()
    with pytest.raises(KeyFormatError):
        linked(key, key)


def test_a_host_key_becomes_another(tmp_path: Path) -> None:
    """Whoever holds the object signs with the new key, and the old one is among the earlier."""
    first, second = SigningKey.generate(), SigningKey.generate()
    first.save(tmp_path / "signing.key")
    host = HostKey.of_host(tmp_path / "signing.key", tmp_path)
    assert host.public == first.public and host.earlier == ()
    host.follow(second, linked(first, second))
    assert host.kid == second.kid and second.public.verify(host.sign(b"x"), b"x")
    assert key_history.every_key(host) == (second.public, first.public)
    assert first.public.pem not in repr(host).encode() and "PRIVATE" not in repr(host)
