"""What the tests' own hosts rest on."""

from __future__ import annotations

import socket

import pytest

from tests.system.hosting import free_port


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", ""])
def test_a_free_port_is_kept_at_every_address(address: str) -> None:
    """A connection from another address of this machine cannot have it, or no host could listen at all addresses."""
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="already in use"):
        other.bind((address, port))


def test_a_host_may_listen_on_a_free_port() -> None:
    """At one address or at all: the socket that keeps it is in nobody's way who reuses addresses, as servers do."""
    for address in ("127.0.0.1", ""):
        port = free_port()
        with socket.create_server((address, port)) as server:
            assert server.getsockname()[1] == port
