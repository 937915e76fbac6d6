"""The network of :mod:`tests.bench.lossy_link`: what arrives at the other end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.bench.lossy_link import ADDRESSES, lossy_link

pytestmark = pytest.mark.release
"""It needs root, ``unshare`` and ``/dev/net/tun``."""

SENDER = f"""
import json, socket, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(0.5)
line.connect(("{ADDRESSES[0]}", 9))
began, back = time.monotonic(), []
for number in range(20):
    line.send(bytes([number]))
    try:
        back.append(line.recv(10)[0])
    except (TimeoutError, ConnectionRefusedError):
        pass
    if number == 2 and not back:
        break
print(json.dumps([len(back), time.monotonic() - began]))
"""

ECHO = f"""
import socket
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("{ADDRESSES[0]}", 9))
print("bound", flush=True)
while True:
    line.sendto(*line.recvfrom(10))
"""


@pytest.mark.parametrize(("loss", "arrive"), [(0.0, 20), (1.0, 0)])
def test_packets_are_late_or_lost(loss: float, arrive: int) -> None:
    """Each way takes its delay, and nothing passes where everything is lost."""
    with lossy_link(0.005, loss, 1) as link:
        words = link.command(0, [sys.executable, "-c", ECHO])
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as echo:
            assert echo.stdout is not None and echo.stdout.readline() == "bound\n"
            words = link.command(1, [sys.executable, "-c", SENDER])
            done = subprocess.run(words, capture_output=True, text=True)
            echo.kill()
        returned, seconds = json.loads(done.stdout)
        assert returned == arrive and link.dropped >= 3 * loss
        assert seconds > 20 * 2 * 0.005 or not arrive
