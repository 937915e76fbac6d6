"""
The state items of the newest signing key, and the check of a host's key against them.

The statement of two keys is put in the transaction of the event ``signing-key-rotated``. A host that starts with an
earlier key, such as one that stood by without learning of the rotation, would sign records that count for nothing. The
same transaction puts the keys of the continuation tokens that were made before, and the secret of stateless resets of
QUIC, which clients know tokens of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.identity import envelope
from agtphost.identity.key_history import (
    DIRECTORY,
    SETTLING,
    Succession,
    earlier_of,
    every_public,
    read_statement,
    waiting_key,
)
from agtphost.identity.keys import KeyFormatError, SigningKey
from agtphost.methods.continuation import LIFE, continuation_key, seal_key, unseal_key
from agtphost.stores import Search, StoreError
from agtphost.stores.interfaces import IRecordReader

SIGNING_KEY = "signing-key"
"""The kind of state item."""

NEWEST = "newest"
"""The key of the only item of its kind."""


TOKEN_KEY = "continuation-key"
"""The kind of state item; its only item has the key :data:`NEWEST`."""

MOST_TOKEN_KEYS = 16
"""Keys in it besides that of the signing key before the newest: of rotations within the life of a token."""


RESET_KEY = "quic-reset-key"
"""The kind of state item; its only item has the key :data:`NEWEST`."""


class OtherKey(StoreError):
    """A host would sign with another key than its store expects."""


def put_statement(link: Succession) -> Change:
    """Return the change that makes a succession the newest one."""
    return Change(kind=SIGNING_KEY, key=NEWEST, value=dict(link.statement))


def put_token_key(held: StateTable, old: SigningKey, new: SigningKey, server_id: str, rotated_at: float) -> Change:
    """
    Return the change that lets a process with the new key read the continuation tokens of earlier ones until they end.

    :param rotated_at: when the old key's use ends, in seconds since the epoch.
    """
    present, replaced = continuation_key(new, server_id), continuation_key(old, server_id)
    until = int((rotated_at + LIFE) * 1000)
    now = rotated_at - SETTLING
    # A rotation that was not completed is repeated, and has sealed them with the new key.
    known = _unseal_token_keys(held, present, now) or _unseal_token_keys(held, replaced, now)
    earlier = [{"sealed": seal_key(present, key), "until": end} for key, end in known if key != replaced]
    value = {"sealed": seal_key(present, replaced), "earlier": earlier[:MOST_TOKEN_KEYS]}
    return Change(kind=TOKEN_KEY, key=NEWEST, value=value, expires_at=until)


def find_token_keys(
    held: StateTable, key: SigningKey | None, server_id: str, now: Callable[[], float]
) -> Sequence[bytes]:
    """Return the keys of the continuation tokens before the newest signing key that may not have ended."""
    if key is None:
        return ()
    return [earlier for earlier, _ in _unseal_token_keys(held, continuation_key(key, server_id), now())]


def _unseal_token_keys(held: StateTable, present: bytes, now: float) -> Sequence[tuple[bytes, int]]:
    """
    Return keys of tokens and when the last of their tokens ends, those of the newest first; none with another key.

    :param present: the key of tokens of the newest signing key.
    """
    item = held.get(TOKEN_KEY, NEWEST)
    if item is None or item.expires_at is None:
        return ()
    # An item of an earlier version has one key.
    sealed = [(item.value["sealed"], item.expires_at)]
    sealed += [(each["sealed"], each["until"]) for each in item.value.get("earlier", ())]
    try:
        return [(unseal_key(present, text), until) for text, until in sealed if until > now * 1000]
    except ValueError:
        return ()


def find_reset_secret(held: StateTable, key: SigningKey, server_id: str) -> bytes:
    """
    Return the secret of a host's stateless resets, the same after a restart and after other signing keys.

    Each reader of a stateless reset's token can end its connection, and a host that does not know a connection sends
    the token to any sender. So the secret is shared with no other host that serves, which may have the same certificate
    (RFC 9000 section 21.11), but with a standby that takes over. A rotation does not change it: who has it can end the
    connections whose packets it sees, as anybody can who sees those of a connection over TCP.
    """
    return _unseal_reset_secret(held, key, server_id) or key.derive(f"quic stateless reset {server_id}")


def put_reset_secret(held: StateTable, old: SigningKey, new: SigningKey, server_id: str) -> Change:
    """Return the change that lets a process with the new key end the connections of QUIC that it does not know."""
    # A rotation that was not completed is repeated, and has sealed it with the new key.
    secret = _unseal_reset_secret(held, new, server_id) or find_reset_secret(held, old, server_id)
    return Change(kind=RESET_KEY, key=NEWEST, value={"sealed": seal_key(_reset_seal(new, server_id), secret)})


def _unseal_reset_secret(held: StateTable, key: SigningKey, server_id: str) -> bytes | None:
    if (item := held.get(RESET_KEY, NEWEST)) is not None:
        with suppress(ValueError):
            return unseal_key(_reset_seal(key, server_id), item.value["sealed"])
    return None


def _reset_seal(key: SigningKey, server_id: str) -> bytes:
    return key.derive(f"quic stateless reset seal {server_id}")


def find_unstored(held: StateTable, key: SigningKey | None) -> Succession | None:
    """Return the succession that led to a host's key, where it is from before there were items; None otherwise."""
    if key is None or held.get(SIGNING_KEY, NEWEST) is not None:
        return None
    return next((link for link in earlier_of(key) if link.new == key.public), None)


def check_signing_key(reader: IRecordReader, key: SigningKey | None, path: Path, state: Path) -> None:
    """
    Check that a host signs with the newest key that its store knows, or with one that followed it.

    The statement is read before the store's state is compared with what was signed, so that the message names the key;
    both keys signed the statement itself. A host that died between the event and its files has the new key
    in the file of the one that waits, and repeats the rotation.

    :param reader: of the store.
    :param path: of the signing key.
    :param state: the state directory.
    :raises OtherKey: the key is another one.
    """
    for statement in reader.state_items(SIGNING_KEY):
        try:
            link = read_statement(statement)
        except (KeyFormatError, ValueError) as error:
            raise StoreError(
                f"the store's statement of the newest signing key is damaged: {error}; restore the store from a backup"
            ) from None
        if link.new in every_public(key) or link.new == _waiting(path):
            continue
        used = "has none" if key is None else f"has {key.kid}"
        raise OtherKey(
            f"the signing key is not the newest one of this store: {path} {used}, and {link.new.kid} followed "
            f"{link.old.kid} on {link.rotated_at}. Copy the key, its .pub and {state / DIRECTORY} from the host that "
            "changed it; signatures of another key after that time are not valid"
        )


def check_standby_key(reader: IRecordReader, key: SigningKey | None, path: Path, state: Path) -> None:
    """
    Check that a standby would sign with the key of the host that serves; parameters as above.

    :raises OtherKey: the key is another one.
    """
    check_signing_key(reader, key, path, state)
    for _, record in reader.latest(None, 1, Search()).records:
        signer = envelope.signer(record.format, record.signed)
        if signer not in {"", *(known.kid for known in every_public(key))}:
            used = "has none" if key is None else f"has {key.kid}"
            raise OtherKey(
                f"the signing key is not the one that signs this store's records: {path} {used}, and the newest record "
                f"was signed by {signer}. Copy the key, its .pub and {state / DIRECTORY} from the host that serves"
            )


def _waiting(path: Path) -> object:
    try:
        return SigningKey.load(waiting_key(path)).public
    except (KeyFormatError, OSError):
        return None
