"""Tokens of stateless resets: which hosts have the same ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.audit.state import StateTable
from agtphost.host.listener import listening_service, quic_service
from agtphost.host.newest_key import put_reset_secret
from agtphost.host.transports import OfferedTransports
from agtphost.identity import certificates, files
from agtphost.identity.keys import SigningKey
from agtphost.protocols import ServerTLS
from agtphost.protocols.quic.core import reset_token
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from tests.config.test_quic_warnings import TOML
from tests.host.test_expiry_watch import load_without_checks
from tests.protocols.links import FakeDispatcher

CONNECTION_ID = b"8 octets"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with ``host.toml`` and a certificate."""
    (tmp_path / "host.toml").write_text(TOML.format(address="127.0.0.1", enabled="true"))
    renew(tmp_path)
    return tmp_path


def renew(folder: Path) -> None:
    """Make a certificate with a key of its own."""
    authority = certificates.create_authority(now=datetime.now(UTC))
    (folder / "server.key").unlink(missing_ok=True)
    files.write_once(folder / "server.key", certificates.key_pem_of(authority.key), files.PRIVATE)
    (folder / "server.pem").write_bytes(authority.certificate_pem)


def token_of(folder: Path, key: SigningKey, server_id: str = "host.test", held: StateTable | None = None) -> bytes:
    """Return the token of a connection ID, as a host makes it after each start."""
    config, clock = load_without_checks(folder), Clock()
    config = config.model_copy(update={"host": config.host.model_copy(update={"server_id": server_id})})
    loaded: Any = SimpleNamespace(config=config, tls=ServerTLS.load(config.tls), key=key)
    listening = listening_service(clock, config, loaded.tls, FakeDispatcher())
    service = quic_service(clock, loaded, held or StateTable(), listening, OfferedTransports())
    assert service is not None
    return reset_token(service.endpoint.secret, CONNECTION_ID)


def test_another_host_with_the_same_certificate_has_other_tokens(folder: Path) -> None:
    """It does not know the connections of this one, and would send their tokens to anybody that asks."""
    key = SigningKey.generate()
    assert token_of(folder, key) == token_of(folder, key)
    assert token_of(folder, key) != token_of(folder, key, "other.test")
    assert token_of(folder, key) != token_of(folder, SigningKey.generate())


def test_a_standby_has_the_same_tokens(folder: Path) -> None:
    """After a takeover it ends the connections of the one before, also where it has another certificate."""
    key = SigningKey.generate()
    before = token_of(folder, key)
    renew(folder)
    assert token_of(folder, key) == before


def test_other_signing_keys_leave_the_tokens(folder: Path) -> None:
    """A host that is killed after rotations ends connections from before, also where one was done twice."""
    held, first, second, third = StateTable(), *(SigningKey.generate() for _ in range(3))
    before = token_of(folder, first)
    for old, new in ((first, second), (first, second), (second, third), (second, third)):
        change = put_reset_secret(held, old, new, "host.test")
        held.apply([ItemRow(change.kind, change.key, b"", 1, None, jsontext.encode(change.value))])
        assert token_of(folder, new, held=held) == before
    assert token_of(folder, second, held=held) != before, "only the newest key can read it"
