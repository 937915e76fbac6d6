"""
A process that has imported what a program needs, and forks one that runs it, for each that asks on a socket.

Nothing here is imported by the tests: :mod:`tests.forking` starts it, ``python -P forkserver.py SOCKET MODULE ...``;
``-P`` keeps this folder off the path. It says ``ready``, and ends, with the folder of its socket, when its standard
input does. A request is what :func:`tests.forked.ask` marshals, after its length and with three descriptors; the answer
is a line with the process id, and one with the wait status. Who asks for ``bound`` ends the process by closing the
connection.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import importlib
import logging
import marshal
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

REACTOR = "twisted.internet.reactor"
ETC = Path(__file__).parents[1] / "etc"

COMMANDS = "commands"
"""The program of a process that runs one command after the other."""

OF_POSTGRES = "agtphost-stalls"
"""The name of a process's one thread that watches connections to PostgreSQL: it outlives them, and has no state."""


def serve(path: str) -> dict[str, Any]:
    """
    Fork for each request, until standard input ends.

    :return: the request, in each of the new processes: what :func:`tests.forked.ask` sent.
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)  # Whoever sees it can ask.
    print("ready", flush=True)
    poll = select.poll()
    poll.register(0, select.POLLHUP)
    poll.register(listener, select.POLLIN)
    children: dict[int, tuple[int, socket.socket]] = {}
    bound: dict[int, int] = {}
    while True:
        for ready, _ in poll.poll():
            if ready == 0:
                shutil.rmtree(Path(path).parent)
                raise SystemExit
            if ready in children:
                pid, connection = children.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                if bound.pop(connection.fileno(), None):
                    poll.unregister(connection)
                _, status = os.waitpid(pid, 0)
                tell(connection, status)
                connection.close()
            elif ready in bound:
                os.kill(bound.pop(ready), signal.SIGKILL)
                poll.unregister(ready)
            elif ready == listener.fileno():
                connection, _ = listener.accept()
                head, files, _, _ = socket.recv_fds(connection, 4, 3)
                with connection.makefile("rb") as stream:
                    request: dict[str, Any] = marshal.loads(stream.read(int.from_bytes(head)))
                pid = os.fork()
                if pid == 0:
                    for held in (listener, connection, *(other for _, other in children.values())):
                        held.close()
                    for number, file in enumerate(files):
                        os.dup2(file, number)
                    for file in (*files, *children):
                        os.close(file)
                    return request
                for file in files:
                    os.close(file)
                inherit(pid, request)
                tell(connection, pid)
                ended = os.pidfd_open(pid)
                children[ended] = pid, connection
                poll.register(ended, select.POLLIN)
                if request["bound"]:
                    bound[connection.fileno()] = pid
                    poll.register(connection, select.POLLHUP)


def tell(connection: socket.socket, number: int) -> None:
    """One line, to who may be gone."""
    with suppress(OSError):
        connection.sendall(b"%d\n" % number)


def inherit(pid: int, request: dict[str, Any]) -> None:
    """What a child of who asked would have."""
    os.sched_setaffinity(pid, request["cores"])
    resource.prlimit(pid, resource.RLIMIT_NOFILE, tuple(request["files"]))
    with suppress(PermissionError):  # Who was nicer, and is no longer, cannot say so.
        os.setpriority(os.PRIO_PROCESS, pid, request["priority"])


def adopt(request: dict[str, Any]) -> None:
    """Take the directory, the environment and the session of who asked, and begin with its descriptors."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    if request["session"]:
        os.setsid()
    # As the interpreter opens them: the descriptors stay open when these objects go, as they do for a second command.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )


def run(request: dict[str, Any]) -> object:
    """What the words name: a script of the environment, or a file; or :data:`COMMANDS`."""
    program, *words = request["words"]
    adopt(request)
    if program == COMMANDS:
        return attend()
    sys.argv[:] = [program, *words]
    # Where an interpreter would look: beside the script, then wherever the variable says, then in its environment.
    sys.path[:0] = [str(Path(program).parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    match Path(program).name:
        case "twistd":
            if os.environ.get("PYTHONPATH"):
                # There may be plugins of Twisted there: the package looks for its folders when it is imported.
                for name in [each for each in sys.modules if each.startswith("twisted.plugins")]:
                    del sys.modules[name]
            from twisted.scripts.twistd import run as twistd

            return twistd()
        case "agtp":
            from agtphost.cli import main

            return main()
        case _:
            return runpy.run_path(program, run_name="__main__") and None


def attend() -> None:
    """
    Run commands, one after the other, for who asks on standard input, and answer with the status of each.

    A command that leaves something in this process is the last one: it ends as the interpreter does, and who asked
    learns the status from the process's parent. So do those that run a reactor or start a thread.
    """
    commands = socket.socket(fileno=os.dup(0))
    # A descriptor that the first listening port of a process opens, and keeps.
    importlib.import_module("twisted.internet.tcp")._reservedFD.reserve()
    places, modules, before = list(sys.path), len(sys.modules), _traces()
    while True:
        head, files, _, _ = socket.recv_fds(commands, 4, 3)
        if not head:
            return
        request = marshal.loads(commands.recv(int.from_bytes(head), socket.MSG_WAITALL))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        status = 1
        try:
            status = flush(outcome(partial(run, request)))
        except BaseException:
            leave(status)
        # Without them, a file of the command that nothing refers to would be open until some collection.
        gc.collect(0)
        forget_check()
        imported = islice(reversed(sys.modules), len(sys.modules) - modules)
        if status < 0 or _traces() != before or not all(map(_is_ours, imported)):
            leave(status)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.close(nothing)
        os.chdir("/")
        sys.path[:] = places
        commands.sendall(b"%d\n" % status)


def forget_check() -> None:
    """Drop what ``agtp check`` imports: the handlers, and a reactor that it hands on and that never runs."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "handlers"]:
        del sys.modules[name]
    reactor = sys.modules.get(REACTOR)
    if reactor is None or reactor._startedBefore or reactor.getDelayedCalls() or reactor.removeAll():
        return
    if [name for name, module in sys.modules.items() if vars(module).get("reactor") is reactor] == ["twisted.internet"]:
        reactor.waker.connectionLost(None)
        reactor._poller.close()
        del sys.modules[REACTOR], sys.modules["twisted.internet"].reactor  # type: ignore[attr-defined]


def _traces() -> object:
    """Return what a command would leave behind in its process."""
    mask = os.umask(0o77)
    os.umask(mask)
    signals = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    files, handlers = os.listdir("/proc/self/fd"), list(logging.root.handlers)
    threads = [thread for thread in threading.enumerate() if thread.name != OF_POSTGRES]
    return REACTOR in sys.modules, threads, atexit._ncallbacks(), signals, mask, files, handlers


def _is_ours(module: str) -> bool:
    """Return whether each host and command would import the same module by this name."""
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or file.startswith((sys.prefix, sys.base_prefix, str(ETC.parent / "agtphost")))


def end(program: Callable[[], object]) -> NoReturn:
    """Run it, and end as the interpreter does."""
    status = 1
    try:
        status = outcome(program)
    finally:
        leave(status)


def outcome(program: Callable[[], object]) -> int:
    """Run it, and return its exit status, or the number of the signal that it is to end by, negative."""
    try:
        sys.exit(program())  # type: ignore[arg-type]
    except SystemExit as told:
        return _status(told.code)
    except BaseException as failure:
        sys.excepthook(type(failure), failure, failure.__traceback__)
        if isinstance(failure, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            return -signal.SIGINT
    return 1


def leave(status: int) -> NoReturn:
    """
    End as the interpreter does: threads that are no daemons, what is to be done at exit, and the status.

    What is left out is freeing all objects one by one, which copies every page that this process shares with the one
    that it was forked from, and takes longer than most commands.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        status = flush(status)
    finally:
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)


def flush(status: int) -> int:
    """Write what is left in the buffers, and return the status, which is another where that cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = status or 120
    return status


def _status(code: object) -> int:
    """What ``sys.exit`` makes of its argument."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def rehearse() -> None:
    """
    Build hosts, so that what the package computes once a process is there in each that is forked.

    One is in memory, and answers; the sample is read and assembled as ``agtp check`` does it. Schemas, contracts and
    validators, the beginning of both OpenSSLs, and the caches of classes are a third of the processor time of a start.
    Twisted imports the reactor for the default of a clock that the host replaces: it is given an empty module, which is
    removed with the modules for tests and those of the sample. What is logged would be repeated by each log that
    begins in a process that was forked.
    """
    before, places = set(sys.modules), list(sys.path)
    sys.modules[REACTOR] = ModuleType(REACTOR)
    logs = importlib.import_module("twisted.logger")
    logs.globalLogPublisher.removeObserver(logs.globalLogBeginner._temporaryObserver)
    host = importlib.import_module("agtphost.testing").MemoryHost()
    host.call("DISCOVER", "/methods")
    host.close()
    with tempfile.TemporaryDirectory() as folder:
        sample = shutil.copytree(ETC, Path(folder, "etc"), ignore=shutil.ignore_patterns("state", "__pycache__"))
        importlib.import_module("agtphost.host.rehearsal").rehearse(sample / "host.toml", {}, portless_reactor())
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # ``twistd`` imports every plugin of Twisted to list them: a tenth of a start.
    services = importlib.import_module("twisted.application.service").IServiceMaker
    for _ in importlib.import_module("twisted.plugin").getPlugins(services):
        pass
    with suppress(SystemExit), redirect_stdout(StringIO()):
        importlib.import_module("agtphost.cli.root").agtp(["--version"], prog_name="agtp")
    logs.globalLogPublisher.addObserver(logs.globalLogBeginner._temporaryObserver)
    sys.path[:] = places
    for name in sorted(set(sys.modules) - before, reverse=True):
        if name == REACTOR or name.startswith(("agtphost.testing", "handlers")):
            package, _, module = name.rpartition(".")
            vars(sys.modules.get(package, sys)).pop(module, None)
            del sys.modules[name]


SIZES = (1 << 16, 1 << 14, 1 << 12, 1 << 11, 1 << 10, 800, 640, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24)
"""Octets of the allocations that fill what is free, from the largest to the smallest."""


class MallocUse(ctypes.Structure):
    """The use of the heap, as ``mallinfo2`` of glibc returns it: octets that are free, and those of them at its end."""

    _fields_ = (*((name, ctypes.c_size_t) for name in "abcdefgh"), ("free", ctypes.c_size_t), ("end", ctypes.c_size_t))


def fill_free_memory() -> list[object]:
    """
    Allocate what is free between the imported objects, so that forked processes allocate beyond it.

    A forked process copies each page that it writes to, which takes it 3 us. Free memory lies in small pieces on pages
    that it shares: a host would copy 1,000 of them, a tenth of what it copies, to start.

    :return: the objects that keep the memory of Python's own allocator taken.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = MallocUse
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        for size in SIZES:
            before = free_within(libc) + size
            while size <= (free := free_within(libc)) <= before - size:
                before = free
                for _ in range(max(1, free // size // 4)):
                    libc.malloc(size)
    # Python's allocator has places of 16, 32, 48 octets and so on up to 512.
    sizes = [size - b"".__sizeof__() for size in range(48, 513, 16) for _ in range(8000 if size <= 128 else 1000)]
    return [[object() for _ in range(8000)], [float(number) for number in range(8000)], [*map(bytes, sizes)]]


def free_within(libc: ctypes.CDLL) -> int:
    """Return how many octets of the heap are free before its end."""
    use = libc.mallinfo2()
    return int(use.free - use.end)


def portless_reactor() -> Any:
    """Return the reactor of hosts in memory, with every port taken."""
    error = importlib.import_module("twisted.internet.error").CannotListenError

    class PortlessReactor(importlib.import_module("agtphost.testing.reactor").MemoryReactor):  # type: ignore[misc]
        def listenTCP(self, port: int, *_: object, **__: object) -> NoReturn:
            raise error("", port, OSError(errno.EADDRINUSE, ""))

    return PortlessReactor()


if __name__ == "__main__":
    gc.disable()  # What is imported stays: a sixth of the time would go into looking through all of it again and again.
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if "agtphost" in sys.argv[2:]:
        rehearse()
    assert REACTOR not in sys.modules, "a reactor before the fork would be everyone's"
    assert threading.active_count() == 1, "threads are not forked"
    gc.collect()
    filling = fill_free_memory()
    gc.freeze()
    gc.enable()
    end(partial(run, serve(sys.argv[1])))
