"""
The host's signing key and its predecessors: rotation, the statement that links two keys, and the files.

A rotation is published twice: by an event ``signing-key-rotated`` in the host's own chain, which the old key signs, and
by a separate statement that both keys signed. So a verifier that trusts either key can find the other, and a statement
that only one of them made counts for nothing. What the old key signed after the end of its use counts for nothing
either: a key that is stolen later is worth nothing (core v08 section 10.9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agtphost.identity import encoding, files
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.foreign_errors import explain

DIRECTORY = "keys"
"""Of the state directory: public halves of earlier keys, and the statements that link them to their successors."""

EVENT = "signing-key-rotated"
"""The event's type, and the type of the statement."""

SETTLING = 5
"""Seconds from the statement until the old key's use ends: a host needs that long at most to put its files in place."""

_SIGNATURES = ("old_signature", "new_signature")
_MEMBERS = frozenset({"type", "server_id", "old_kid", "old_key", "new_kid", "new_key", "rotated_at", *_SIGNATURES})


@dataclass(frozen=True, kw_only=True)
class Succession:
    """The succession of one key by another."""

    old: VerifyingKey
    new: VerifyingKey
    rotated_at: str
    """RFC 3339: the end of the old key's use, a few seconds after the statement was made."""

    statement: Mapping[str, str]
    """What both keys signed, with both signatures: the further members of the event."""


def succeed(old: SigningKey, new: SigningKey, *, server_id: str, rotated_at: str) -> Succession:
    """
    Link two keys.

    :param rotated_at: RFC 3339.
    :raises KeyFormatError: they are one and the same.
    """
    if old.public == new.public:
        raise KeyFormatError("the new signing key is the present one")
    content = {
        "type": EVENT,
        "server_id": server_id,
        "old_kid": old.kid,
        "old_key": old.public.text,
        "new_kid": new.kid,
        "new_key": new.public.text,
        "rotated_at": rotated_at,
    }
    octets = canonical(content)
    signatures = zip(_SIGNATURES, (old, new), strict=True)
    signed = {name: encoding.encode(key.sign(octets)).decode("ascii") for name, key in signatures}
    return Succession(old=old.public, new=new.public, rotated_at=rotated_at, statement={**content, **signed})


def read_statement(statement: object) -> Succession:
    """
    Verify a statement that a key follows another one; both keys must have signed it.

    :raises KeyFormatError: it is none, or a signature is missing or wrong.
    """
    if not isinstance(statement, Mapping) or statement.keys() != _MEMBERS:
        raise KeyFormatError("it is not a statement of two keys")
    if not all(isinstance(value, str) for value in statement.values()) or statement["type"] != EVENT:
        raise KeyFormatError("it is not a statement of two keys")
    old, new = VerifyingKey.from_text(statement["old_key"]), VerifyingKey.from_text(statement["new_key"])
    if old == new or (old.kid, new.kid) != (statement["old_kid"], statement["new_kid"]):
        raise KeyFormatError("its keys are not what they are named for")
    if moment_of(statement["rotated_at"]) is None:
        raise KeyFormatError("its rotated_at is not a time")
    octets = canonical({name: value for name, value in statement.items() if name not in _SIGNATURES})
    for name, key in zip(_SIGNATURES, (old, new), strict=True):
        try:
            signature = encoding.decode_padded(statement[name])
        except ValueError:
            raise KeyFormatError(f"its {name} is not base64url") from None
        if not key.verify(signature, octets):
            raise KeyFormatError(f"its {name} is wrong")
    return Succession(old=old, new=new, rotated_at=statement["rotated_at"], statement=dict(statement))


def read_history(directory: Path, current: VerifyingKey) -> tuple[Succession, ...]:
    """
    Read the keys before ``current``, the newest first.

    Statements that do not lead to it are ignored: an attacker who can put a file here must not be able to add a key.

    :raises KeyFormatError: naming a file that is not a valid statement.
    :raises OSError: a file cannot be opened.
    """
    found: dict[VerifyingKey, list[Succession]] = {}
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else ():
        try:
            link = read_statement(json.loads(path.read_bytes()))
        except ValueError as error:
            raise KeyFormatError(f"{path}: {explain(error)}") from error
        found.setdefault(link.new, []).append(link)
    history: list[Succession] = []
    seen, waiting = {current}, [current]
    while waiting:
        for link in found.get(waiting.pop(0), ()):
            if link.old not in seen:
                seen.add(link.old)
                history.append(link)
                waiting.append(link.old)
    return tuple(history)


def keep(directory: Path, link: Succession) -> None:
    """
    Keep what an earlier key is known by, durably.

    :raises OSError: it cannot be written.
    """
    files.make_directory(directory)
    octets = json.dumps(dict(link.statement), indent=1).encode() + b"\n"
    files.replace(directory / f"{link.old.kid}.json", octets, files.PUBLIC)
    files.replace(directory / f"{link.old.kid}.pub", link.old.pem, files.PUBLIC)


def waiting_key(path: Path) -> Path:
    """Return the file of the key that is to follow the one at ``path``."""
    return path.with_name(f"{path.name}.next")


class HostKey(SigningKey):
    """
    The key that this host signs with, which another may follow while it runs.

    Everything on the reactor's side holds this one object, and so signs with
    the new key from the same moment on. The ledger's thread has copies of its
    own, which it changes between two groups of records.
    """

    __slots__ = ("history",)
    history: tuple[Succession, ...]

    @classmethod
    def of_host(cls, path: Path, state: Path) -> HostKey:
        """
        Read the present key and the history of it.

        :raises KeyFormatError: naming the file.
        :raises OSError: one cannot be opened.
        """
        key = cls.load(path)
        assert isinstance(key, HostKey)
        key.history = read_history(state / DIRECTORY, key.public)
        return key

    @property
    def earlier(self) -> tuple[Succession, ...]:
        """The keys before, the newest first."""
        return getattr(self, "history", ())

    def follow(self, key: SigningKey, link: Succession) -> None:
        """Sign with another key from now on."""
        self.history = (link, *self.earlier)
        self._key, self.public, self.kid, self.sign = key._key, key.public, key.kid, key.sign


def every_key(key: SigningKey) -> tuple[VerifyingKey, ...]:
    """Return the public half of a key, and those of the keys before it."""
    return (key.public, *(link.old for link in earlier_of(key)))


def every_public(key: SigningKey | None) -> tuple[VerifyingKey, ...]:
    """Return the public half of a key, and those of the keys before it; none for None, a host that does not sign."""
    return () if key is None else every_key(key)


def earlier_of(key: SigningKey | None) -> tuple[Succession, ...]:
    """Return the keys before a host's key; none for any other."""
    return key.earlier if isinstance(key, HostKey) else ()


def event_fields(link: Succession) -> dict[str, Any]:
    """Return the further members of the event: the event says type and server_id itself."""
    return {name: value for name, value in link.statement.items() if name not in ("type", "server_id")}


def read_event(payload: Mapping[str, Any]) -> Succession:
    """
    Read the statement in the event of a rotation.

    :param payload: of a record whose signature was checked.
    :raises KeyFormatError: there is none, or not a true one.
    """
    statement = {name: payload[name] for name in _MEMBERS if name in payload}
    return read_statement({**statement, "type": payload.get("event_type")})


def moment_of(text: object) -> datetime | None:
    """Return a text as a time with its zone; None for everything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


def statements_of(key: SigningKey | None, until: VerifyingKey | None = None) -> list[dict[str, str]]:
    """
    Return the statements that lead from a host's first key to a later one, the oldest first.

    :param until: the later key; None for the present one.
    """
    statements = []
    for link in reversed(earlier_of(key)):
        if link.old == until:
            break
        statements.append(dict(link.statement))
    return statements
