"""Choose ports for trial hosts: the usual one, or the next free one."""

from __future__ import annotations

import os
import socket

from agtphost.cli.failures import WrongInput
from agtphost.vocabulary.uris import DEFAULT_PORT

ADDRESS = "127.0.0.1"
USUAL_PORT = "AGTPHOST_PORT"
"""Environment variable with the first port to try, if it is not the protocol's own."""

_HELD: list[socket.socket] = []
"""Bound sockets of the ports that were chosen."""

NEARBY = 20
"""Ports from the usual one on that are tried before the system chooses one."""


def usual_port() -> int:
    """Return the port at which a host of this user is expected."""
    text = os.environ.get(USUAL_PORT, str(DEFAULT_PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise WrongInput(f"{USUAL_PORT} is not a port: {text[:40]!r}", "Set it to 1 to 65535, or give --port.")
    return int(text)


def free_port(first: int) -> int:
    """
    Return ``first`` or one of the next ports if nothing listens there, or else any free port.

    The port stays bound while this process runs, so that the system gives it to no program that asks for any port
    before the host listens. A listener with SO_REUSEADDR, which Twisted sets, can be bound besides.
    """
    for port in (*range(first, min(first + NEARBY, 65_536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
                probe.listen()
            except OSError:
                continue
            chosen = int(probe.getsockname()[1])
        if _hold(chosen):
            return chosen
    raise WrongInput(f"no port of {ADDRESS} is free")


def _hold(port: int) -> bool:
    """Bind a port without listening on it, and return whether that was possible."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((ADDRESS, port))
    except OSError:
        held.close()
        return False
    _HELD.append(held)
    return True
