"""
``twistd`` whose connections have the defect that a file names at the time they are opened.

``AGTPHOST_DEFECT=FILE python defective_host.py twistd ARGUMENTS...``; the
host's signing key lies beside the file, as ``signing.key``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.scripts.twistd import run

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agtphost.identity.keys import SigningKey
from agtphost.protocols.connection import ServerConnection
from tests.conformance import quic_defects
from tests.conformance.defects import DEFECTS, Defect, Seal, whole
from tests.conformance.manifest_defects import BREAKING

CHOSEN = Path(os.environ["AGTPHOST_DEFECT"])
HOLD = 0.1
"""Seconds for which answers are held that are to be swapped."""


class Spoiling:
    """A transport that spoils what is written to it."""

    def __init__(self, transport: Any, defect: Defect) -> None:
        self._transport = transport
        self._defect = defect
        self._held: list[bytes] = []
        self._buffer = bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, octets: bytes) -> None:
        seal = Seal(key=SigningKey.load(CHOSEN.parent / "signing.key"))
        self._buffer += octets
        for answer in whole(self._buffer):
            self._put(self._defect.answers(answer, seal).octets() + self._defect.tail)

    def _put(self, octets: bytes) -> None:
        if not self._defect.swap:
            self._transport.write(octets)
            return
        from twisted.internet import reactor

        if not self._held:
            reactor.callLater(HOLD, self._release)  # type: ignore[attr-defined]
        self._held.append(octets)

    def _release(self) -> None:
        self._transport.write(b"".join(reversed(self._held)))
        self._held.clear()


def install() -> None:
    """Give every new connection the chosen defect."""
    made, received = ServerConnection.makeConnection, ServerConnection.dataReceived
    chosen: dict[ServerConnection, Defect] = {}

    def make(self: ServerConnection, transport: Any) -> None:
        chosen[self] = {**DEFECTS, **BREAKING}.get(CHOSEN.read_text(), DEFECTS["none"])
        made(self, transport)
        self._transport = Spoiling(self._transport, chosen[self])  # type: ignore[assignment]

    def receive(self: ServerConnection, octets: bytes) -> None:
        received(self, chosen[self].asks(octets))

    ServerConnection.makeConnection = make  # type: ignore[method-assign]
    ServerConnection.dataReceived = receive  # type: ignore[method-assign]
    quic_defects.install(CHOSEN.read_text)


if __name__ == "__main__":
    install()
    sys.argv = sys.argv[1:]
    run()  # type: ignore[no-untyped-call]
