"""Ports for hosts to try: the usual one, or one beside it where another host has that."""

from __future__ import annotations

import os
import socket

from agtphost.cli.failures import WrongInput
from agtphost.vocabulary.uris import DEFAULT_PORT

ADDRESS = "127.0.0.1"
USUAL_PORT = "AGTPHOST_PORT"
"""The environment variable with the port to begin at, where that is not the protocol's own."""

NEARBY = 20
"""Ports from the usual one on that are tried before any will do."""


def usual_port() -> int:
    """Where a host of this user is looked for first."""
    text = os.environ.get(USUAL_PORT, str(DEFAULT_PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise WrongInput(f"{USUAL_PORT} is not a port: {text[:40]!r}", "Say a number from 1 to 65535, or --port.")
    return int(text)


def free_port(first: int) -> int:
    """``first`` or one of the next, if nothing listens there; else any."""
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
