"""The free port of a trial host is the host's until it listens."""

from __future__ import annotations

import socket

import pytest

from agtphost.cli.ports import ADDRESS, free_port


def test_chosen_port_is_held_for_the_host() -> None:
    """A program that takes any port is not given it; a host, whose listener has SO_REUSEADDR, listens there."""
    with socket.create_server((ADDRESS, 0)) as taken:
        first = int(taken.getsockname()[1])
        port = free_port(first)
        assert port != first
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((ADDRESS, port))
    with socket.create_server((ADDRESS, port)):
        assert free_port(port) != port
