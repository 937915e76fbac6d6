"""Choose ports for trial hosts: the usual one, or the next free one."""

from __future__ import annotations

import os
import socket

from agtphost.cli.failures import WrongInput
from agtphost.vocabulary.uris import DEFAULT_PORT

ADDRESS = "127.0.0.1"
USUAL_PORT = "AGTPHOST_PORT"
"""Environment variable with the first port to try, if it is not the protocol's own."""

NEARBY = 20
"""Ports from the usual one on that are tried before the system chooses one."""


def usual_port() -> int:
    """Return the port at which a host of this user is expected."""
    text = os.environ.get(USUAL_PORT, str(DEFAULT_PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise WrongInput(f"{USUAL_PORT} is not a port: {text[:40]!r}", "Set it to 1 to 65535, or give --port.")
    return int(text)


def free_port(first: int) -> int:
    """Return ``first`` or one of the next ports if nothing listens there, or else any free port."""
    for port in (*range(first, min(first + NEARBY, 65_536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
                probe.listen()
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise WrongInput(f"no port of {ADDRESS} is free")
