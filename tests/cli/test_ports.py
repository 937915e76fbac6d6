"""The free port of a trial host is the host's until it listens."""

from __future__ import annotations

import socket

import pytest

from agtphost.cli.page import propose_page_port
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


def test_the_port_proposed_for_a_page_is_not_the_hosts() -> None:
    """``agtp up`` takes 4481 where 4480 is taken: the page cannot listen there, nor where another program does."""
    with socket.create_server((ADDRESS, 0)) as host:
        port = int(host.getsockname()[1])
        proposed = propose_page_port(f"agtp://localhost:{port}")
        assert proposed > port
    assert propose_page_port("agtp://agents.example.com") == 4481
