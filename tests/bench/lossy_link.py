"""
A network between two network namespaces, with delay and seeded loss, whose ends are the system's own TCP and UDP.

Each end is a TUN device; a relay passes packets from one to the other. This needs Linux, root and ``/dev/net/tun``, but
no module of the kernel that delays packets.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

ADDRESSES = ("10.77.0.1", "10.77.0.2")
"""Of the two ends: the server's and the client's."""

MTU = 1_500
_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


class LossyLink:
    """
    The network.

    :param delay: seconds from one end to the other.
    :param loss: share of the packets that are dropped, in each direction.
    :param seed: of what is dropped.
    """

    def __init__(self, delay: float, loss: float, seed: int) -> None:
        self.delay, self.loss = delay, loss
        self.dropped = self.passed = 0
        self._chance = random.Random(seed)
        self._ends = [_End(address) for address in ADDRESSES]
        self._ended = threading.Event()
        self._relay = threading.Thread(target=self._pass_packets, daemon=True)
        self._relay.start()

    def command(self, end: int, words: Sequence[str]) -> list[str]:
        """Return a command that runs at one end: 0 is the server's, 1 the client's."""
        return ["nsenter", f"--net=/proc/{self._ends[end].pid}/ns/net", *words]

    def close(self) -> None:
        """Take the network down."""
        self._ended.set()
        self._relay.join()
        for end in self._ends:
            end.close()

    def _pass_packets(self) -> None:
        late: list[tuple[float, int, int, bytes]] = []
        number = 0
        files = [end.file for end in self._ends]
        while not self._ended.is_set():
            now = time.monotonic()
            while late and late[0][0] <= now:
                _, _, to, packet = heapq.heappop(late)
                os.write(files[to], packet)
            wait = min(max(late[0][0] - time.monotonic(), 0.0), 0.2) if late else 0.2
            for file in select.select(files, (), (), wait)[0]:
                packet = os.read(file, MTU + 100)
                if self._chance.random() < self.loss:
                    self.dropped += 1
                    continue
                self.passed += 1
                number += 1
                heapq.heappush(late, (time.monotonic() + self.delay, number, 1 - files.index(file), packet))


class _End:
    """A namespace with a TUN device, kept by a process that waits."""

    def __init__(self, address: str) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        words = [sys.executable, __file__, address, str(theirs.fileno())]
        with theirs:
            self._keeper = subprocess.Popen(words, pass_fds=[theirs.fileno()])
        self.pid = self._keeper.pid
        with mine:
            answer, files, _, _ = socket.recv_fds(mine, 100, 1)
        if not files:
            self._keeper.wait()
            raise OSError(f"no network namespace with a TUN device: {answer.decode() or 'the process ended'}")
        self.file = files[0]

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.wait()
        os.close(self.file)


def _keep_namespace(address: str, line: socket.socket) -> None:
    """Make the namespace and its device, hand the device over, and wait to be killed."""
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        file = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", b"lossy0", _IFF_TUN | _IFF_NO_PI))
        for words in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{address}/24", "dev", "lossy0"),
            ("ip", "link", "set", "dev", "lossy0", "mtu", str(MTU), "up"),
        ):
            subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        line.send(str(error).encode()[:90])
        return
    socket.send_fds(line, [b"ready"], [file])
    line.close()
    signal.pause()


@contextmanager
def lossy_link(delay: float, loss: float, seed: int) -> Iterator[LossyLink]:
    """Have a network as long as the block runs."""
    link = LossyLink(delay, loss, seed)
    try:
        yield link
    finally:
        link.close()


if __name__ == "__main__":
    _keep_namespace(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
