"""
Asks :mod:`tests.forkserver` for a process, or stands for one where another program is to start it.

``forked.py SOCKET PROGRAM ...`` hands on its descriptors, directory, environment and signals, takes the process with it
when it is killed, and ends as that ends. It is run with ``-I -S``, as nothing but this is to be imported.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from typing import Any


def ask(server: str, words: list[str], environ: dict[str, str], files: list[int], **more: Any) -> socket.socket:
    """
    A process with what a child of this thread would have.

    :param files: standard input, output and error.
    :param more: what else :func:`tests.forkserver.run` reads.
    :return: where its id is told, and its wait status.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(server)
    inherited = {
        "cores": [*os.sched_getaffinity(0)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    body = json.dumps({"words": words, "cwd": os.getcwd(), "environ": environ, **inherited, **more}).encode()
    socket.send_fds(connection, [len(body).to_bytes(4)], files)
    connection.sendall(body)
    return connection


def stand(server: str, words: list[str]) -> None:
    """Live as long as a process."""
    connection = ask(server, words, dict(os.environ), [0, 1, 2], session=False, bound=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    answers = connection.makefile("rb")
    pid = int(answers.readline())
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda given, _: os.kill(pid, given))
    code = os.waitstatus_to_exitcode(int(answers.readline()))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    stand(sys.argv[1], sys.argv[2:])
