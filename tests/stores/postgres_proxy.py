"""Proxies in front of a PostgreSQL server's UNIX socket: one can lose answers, one is a bad network."""

from __future__ import annotations

import random
import socket
import threading
import time
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
        for the answer first, ``silence`` forwards it and gives no answer, ``late`` closes the client's connection and
        forwards it when :attr:`release` is set, ``part`` forwards what is before COMMIT and nothing afterwards, as of
        a client that is frozen or cut off."""
        self.cuts = 0
        self.release = threading.Event()
        self.refused = threading.Semaphore(0)
        """Released when the server has refused a message because the row of the store was another one."""
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
                self.carry()
                if how == "late":
                    client.shutdown(socket.SHUT_RDWR)
                    self.release.wait()
                if how == "part":
                    server.sendall(octets[: octets.index(b"COMMIT")])
                    return
                server.sendall(octets)
                if how in ("drop", "late"):
                    client.shutdown(socket.SHUT_RDWR)
                    return  # The server's connection stays open: its COMMIT goes on.
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket, state: dict[str, bool]) -> None:
        with suppress(OSError):
            while octets := server.recv(1 << 16):
                if not state["silent"]:
                    self.carry()
                    client.sendall(octets)
                elif self.cuts and b"COMMIT" in octets:
                    break  # Carried out, and the client does not hear of it.
                elif b"C22012\0" in octets:
                    self.refused.release()
        for each in (client, server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def carry(self) -> None:
        """Take the time that a network needs for a message."""

    def close(self) -> None:
        """Close every connection."""
        self._listener.close()
        for each in self._open:
            each.close()


class Network(Proxy):
    """
    A network that is cut, loses messages, or takes long.

    A cut one keeps what is sent until it is restored, as TCP sends it again, and connections are made that nothing
    answers; for a machine that is away, the kernel ends them earlier.
    """

    RETRANSMISSION = 0.2
    """Seconds after which TCP sends a lost message again; doubled for each further time."""

    def __init__(self, folder: Path, own: Path, chance: random.Random) -> None:
        self.delay = self.loss = 0.0
        """Seconds of a message in one direction, and how many of all messages are lost."""

        self._chance = chance
        self._through = threading.Event()
        self._through.set()
        super().__init__(folder, own)

    def carry(self) -> None:
        self._through.wait()
        lost = 0
        while self._chance.random() < self.loss:
            lost += 1
        time.sleep(self.delay + self.RETRANSMISSION * (2**lost - 1))

    def cut_off(self) -> None:
        """Keep everything."""
        self._through.clear()

    def restore(self) -> None:
        """Let everything through."""
        self._through.set()

    def close(self) -> None:
        self.restore()
        super().close()
