"""
The program of a worker process: it reads computations from its standard input and answers on its standard output.

Each computation runs in a child that is forked for it. Its limits on time and memory are the operating system's, the
child is killed where it exceeds them, and the memory it used is always freed. The worker itself
imports modules, forks and passes octets on: nothing that a caller sends is decoded in it.

A computation is its number and the lengths of a name and of JSON text, four octets each, the name and the text. An
answer is one octet of kind, the length of what follows in four octets, and that:
:data:`agtphost.compute.functions.RESULT` and the others. File descriptor 3 receives the numbers of computations that
are to be stopped, four octets each: a signal could hit the next one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import struct
import sys
import traceback
from contextlib import suppress

from agtphost.compute import functions

SECONDS = 5
"""Of processor time for one computation."""

MEMORY = 134_217_728
"""Octets of address space of one computation, beyond what the worker has."""

NICENESS = 10
"""Of a worker, beyond the host's; the host sets it, so that it holds while the worker starts."""

HEAD = struct.Struct(">III")
CONTROL = struct.Struct(">I")
ANSWER_HEAD = struct.Struct(">cI")
PIECE = 65_536
TRACEBACK = 8_000
"""Characters of a traceback that are passed on."""

_PR_SET_PDEATHSIG = 1


class Worker:
    """
    Reads, forks and answers.

    :param source: file descriptor of the computations.
    :param sink: file descriptor of the answers.
    :param control: file descriptor of the numbers of computations that are to be stopped.
    :param seconds: of processor time for one computation.
    :param memory: octets of address space for one computation, beyond the worker's own.
    """

    def __init__(self, source: int, sink: int, control: int, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self._source, self._sink, self._control = source, sink, control
        self._seconds, self._memory = seconds, memory
        self._number = 0
        self._stopped = -1
        """The newest computation that is to be stopped."""

        self._prepared: set[str] = set()

    def run(self) -> None:
        """Answer computations until the standard input ends."""
        self._answer(functions.READY, b"")
        while (head := self._read(HEAD.size)) is not None:
            self._number, name_length, length = HEAD.unpack(head)
            name, octets = self._read(name_length), self._read(length)
            if name is None or octets is None:
                return
            self._answer(*self._compute(name.decode(), octets))
            del octets

    def _compute(self, name: str, octets: bytes) -> tuple[bytes, bytes]:
        """Compute in a child process and return its answer."""
        try:
            self._prepare(name)
        except Exception:
            return functions.FAILED, _traceback()
        reading, writing = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(name, octets, writing, parent)
        os.close(writing)
        found = bytearray()
        try:
            while len(found) <= functions.MAX_RESULT:
                ready, _, _ = select.select([reading, self._control], [], [])
                if self._control in ready and self._is_stopped():
                    os.kill(child, signal.SIGKILL)
                    break
                if reading in ready:
                    piece = os.read(reading, PIECE)
                    if not piece:
                        break
                    found += piece
        finally:
            os.close(reading)
        _, status = os.waitpid(child, 0)
        return self._judge(status, found)

    def _is_stopped(self) -> bool:
        """Return whether the computation that runs is to be stopped; others that are named are over."""
        octets = os.read(self._control, CONTROL.size)
        if len(octets) < CONTROL.size:
            os._exit(0)  # The host is gone; the kernel ends the child.
        self._stopped = max(self._stopped, *CONTROL.unpack(octets))
        return self._stopped >= self._number

    def _judge(self, status: int, found: bytearray) -> tuple[bytes, bytes]:
        if self._stopped >= self._number:
            return functions.STOPPED, b""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number in (signal.SIGXCPU, signal.SIGKILL):
                return functions.TOO_MUCH_TIME, b""
            return functions.FAILED, f"the computation ended by signal {number}".encode()
        if not found:
            return functions.FAILED, f"the computation ended with status {os.WEXITSTATUS(status)}".encode()
        return bytes(found[:1]), bytes(found[1:])

    def _be_child(self, name: str, octets: bytes, writing: int, parent: int) -> None:
        """Compute and write the answer; runs in the child and ends it."""
        kind, said = functions.FAILED, b""
        try:
            _die_with(parent)
            os.close(self._source)
            os.close(self._sink)
            os.close(self._control)
            resource.setrlimit(resource.RLIMIT_CPU, (self._seconds, self._seconds + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _limit_memory(self._memory)
            kind, said = functions.perform(name, octets)
        except MemoryError:
            kind, said = functions.TOO_MUCH_MEMORY, b""
        except BaseException:
            kind, said = functions.FAILED, _traceback()
        try:
            _write(writing, kind)
            _write(writing, said)
        finally:
            os._exit(0)

    def _prepare(self, name: str) -> None:
        """Import what a function needs before the fork, so that the next ones have it."""
        if name in self._prepared:
            return
        function = functions.FUNCTIONS[name]
        functions.resolve(function.path)
        if function.prepare:
            functions.resolve(function.prepare)()
        self._prepared.add(name)
        # Children share what is never written to: a collection would write to all of it.
        gc.collect()
        gc.freeze()

    def _answer(self, kind: bytes, said: bytes) -> None:
        _write(self._sink, ANSWER_HEAD.pack(kind, len(said)))
        _write(self._sink, said)

    def _read(self, length: int) -> bytes | None:
        """Read so many octets; None where the input ends before."""
        found = bytearray()
        while len(found) < length:
            piece = os.read(self._source, min(length - len(found), PIECE))
            if not piece:
                return None
            found += piece
        return bytes(found)


def _write(sink: int, octets: bytes) -> None:
    view = memoryview(octets)
    while view:
        view = view[os.write(sink, view[:PIECE]) :]


def _traceback() -> bytes:
    return traceback.format_exc()[-TRACEBACK:].encode("utf-8", "backslashreplace")


def _limit_memory(more: int) -> None:
    """Let this process have so many octets of address space beyond what it has."""
    with suppress(OSError, ValueError):
        with open("/proc/self/statm") as statm:
            present = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (present + more, present + more))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; only Linux can."""
    prctl = getattr(_LIBRARY, "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


_LIBRARY = ctypes.CDLL(None)


def main() -> None:
    """Run a worker process. Its argument is the process identifier of the host."""
    _die_with(int(sys.argv[1]))
    # What the kernel ends first where memory is short: a computation can be repeated.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
        adjustment.write("500")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # They reach the whole group of a host in a terminal; the host ends its workers when its calls are over.
        signal.signal(number, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        Worker(0, 1, 3).run()


if __name__ == "__main__":
    main()
