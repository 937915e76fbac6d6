"""
Asks :mod:`tests.forkserver` for a process, or stands for one where another program is to start it.

``forked.py SOCKET PROGRAM ...`` hands on its descriptors, directory, environment and signals, takes the process with it
when it is killed, and ends as that ends. It is run with ``-I -S``, as nothing but this is to be imported: with modules
written in C alone it starts in 12 ms of a processor's time, and with ``json``, ``socket`` and ``signal`` in 27 ms.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import resource
import sys


def ask(server: str, words: list[str], environ: dict[str, str], files: list[int], **more: object) -> int:
    """
    Ask for a process with what a child of this thread would have.

    :param files: standard input, output and error.
    :param more: what else :func:`tests.forkserver.run` reads.
    :return: the descriptor of a socket that its id is read from, and its wait status.
    """
    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(server)
    send(connection, {"words": words, "cwd": os.getcwd(), "environ": environ, **inherited(), **more}, files)
    return connection.detach()


def inherited() -> dict[str, object]:
    """Return what a child inherits, and a process that is forked from another one does not."""
    return {
        "cores": [*os.sched_getaffinity(0)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }


def send(connection: _socket.socket, request: dict[str, object], files: list[int]) -> None:
    """Send a request, after its length, and three descriptors with that."""
    body = marshal.dumps(request)
    handed = b"".join(file.to_bytes(4, sys.byteorder) for file in files)
    connection.sendmsg([len(body).to_bytes(4)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handed)])
    connection.sendall(body)


def stand(server: str, words: list[str]) -> None:
    """Live as long as a process."""
    connection = ask(server, words, dict(os.environ), [0, 1, 2], session=False, bound=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    answers = open(connection, "rb")  # noqa: SIM115
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
