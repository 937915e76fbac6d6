"""
Run one MCP server process so that none of its processes outlives the host.

:mod:`agtphost.adapters.mcp.stdio` starts this file as a separate program, with the standard library alone:

``python -I -S launcher.py NAMES COMMAND [ARGUMENT ...]``, where NAMES are the comma-separated environment variables
that the command gets.

The command runs as a child in a separate session and has descriptors 0, 1 and 2 directly, so nothing is relayed. This
process then waits for the first of:

- the command ends: all processes it started are killed, and this process ends as the command did, by the same exit code
  or signal;
- SIGTERM: passed on to the command's process group;
- end of file on descriptor 3, the lifeline that the host holds open, or the host's death (SIGHUP): everything the
  command started is killed.

On Linux this process is the subreaper of all it started, so that a process that daemonizes itself is found and killed
too. The command dies with this process.
"""

import ctypes
import os
import resource
import select
import signal
import sys

LIFELINE = 3
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CANNOT_RUN = 127
SWEEPS = 1000
"""Rounds of killing; a process that forks faster than this loses to the process group kill anyway."""

HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGINT)


def set_prctl(option: int, value: int) -> None:
    """Call prctl(2) where the system has it."""
    try:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)
    except (AttributeError, OSError):
        return


def exec_command(command: list[str], names: list[str], launcher: int) -> None:
    """Replace the child process by the command."""
    os.setsid()
    set_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(CANNOT_RUN)
    for number in (*HANDLED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    environment = {name: os.environ[name] for name in names if name in os.environ}
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(2, f"cannot run {command[0]!r}: {error.strerror}\n".encode())
        os._exit(CANNOT_RUN)


def kill_group(leader: int, number: int) -> None:
    """Send a signal to the command's process group, if it still exists."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return


def list_children() -> list[int]:
    """Return the children of this process: the command, and its orphaned descendants."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listing:
            return [int(number) for number in listing.read().split()]
    except (OSError, ValueError):
        return []


def sweep() -> None:
    """Kill and reap all descendants; the command's own status was taken before."""
    poll = select.poll()
    for _ in range(SWEEPS):
        for number in list_children():
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        poll.poll(1)


def take_status(child: int) -> int | None:
    """
    Reap the processes that ended.

    :return: the command's wait status once it ended. Its group is killed first, while the group id cannot be reused.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return 0
        if ended is None:
            return None
        if ended.si_pid == child:
            kill_group(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]
        os.waitpid(ended.si_pid, 0)


def watch(child: int, signals: int, host: int) -> int:
    """Wait for the end and return the command's wait status."""
    poll = select.poll()
    poll.register(LIFELINE, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == signals:
                numbers = os.read(signals, 512)
                if signal.SIGTERM in numbers:
                    kill_group(child, signal.SIGTERM)
                status = take_status(child)
                if status is not None:
                    return status
                if signal.SIGHUP in numbers and os.getppid() != host:
                    return end(child)
            elif not os.read(LIFELINE, 512):
                return end(child)


def end(child: int) -> int:
    """Kill the command and return its wait status."""
    kill_group(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def exit_like(status: int) -> None:
    """End this process as the command did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else CANNOT_RUN)


def run(names: list[str], command: list[str]) -> None:
    """Start the command, wait, clean up, and end as it did."""
    host = os.getppid()
    os.setsid()
    os.set_inheritable(LIFELINE, False)
    set_prctl(PR_SET_PDEATHSIG, signal.SIGHUP)
    set_prctl(PR_SET_CHILD_SUBREAPER, 1)
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in HANDLED:
        signal.signal(number, lambda *_: None)
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        exec_command(command, names, launcher)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    status = watch(child, readable, host)
    sweep()
    exit_like(status)


if __name__ == "__main__":
    run([name for name in sys.argv[1].split(",") if name], sys.argv[2:])
