"""A proxy in front of a PostgreSQL server's UNIX socket, which can lose answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agtphost.cli.trial_database import PORT

NAME = f".s.PGSQL.{PORT}"


class Proxy:
    """
    Forwards connections, and asks a function about what clients send.

    :param folder: of the server's socket.
    :param own: the directory for the proxy's socket.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self._server = str(folder / NAME)
        self.folder = own
        self.cut: Callable[[bytes], str] = lambda octets: ""
        """Called with what a client sends: ``drop`` forwards it and closes the client's connection, ``answered`` waits
        for the answer first, ``silence`` forwards it and gives no answer."""
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(own / NAME))
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._server)
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._open += [client, server]
                state = {"silent": False}
                threading.Thread(target=self._up, args=(client, server, state), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server, state), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with suppress(OSError):
            while octets := client.recv(1 << 16):
                how = self.cut(octets)
                if how:
                    self.cuts += 1
                    state["silent"] = True
                server.sendall(octets)
                if how == "drop":
                    client.shutdown(socket.SHUT_RDWR)
                    return  # The server's connection stays open: its COMMIT goes on.
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with suppress(OSError):
            while octets := server.recv(1 << 16):
                if not state["silent"]:
                    client.sendall(octets)
                elif self.cuts and octets[:1] in (b"C", b"E", b"T") and b"COMMIT" in octets:
                    break  # Carried out, and the client does not hear of it.
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection."""
        self._listener.close()
        for each in self._open:
            each.close()
