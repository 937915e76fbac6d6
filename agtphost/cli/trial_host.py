"""A process of a trial host that shares its store with others: its start, its notices, and its end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from agtphost.config.cluster import NAME_VARIABLE
from agtphost.config.loader import STATE_VARIABLE

_OF_OTHER_MANAGERS = ("WATCHDOG_USEC", "WATCHDOG_PID")


class HostRole(Enum):
    """The role of a host, by its newest notice."""

    STARTING = "starting"
    STANDBY = "stands by"
    SERVING = "serves"
    STOPPING = "stops"
    SILENT = "does not answer"
    ENDED = "ended"


class TrialHost:
    """
    A host in a separate process, which reports its state as to a service manager.

    :param name: its ``[cluster] name``.
    :param config: ``host.toml``, which the hosts share.
    :param state: its state directory.
    :param log: the file of its log.
    :param notices: the path of a socket for its notices; it is short.
    """

    def __init__(self, name: str, config: Path, state: Path, log: Path, notices: Path) -> None:
        self.name = name
        self.state = state
        self.log = log
        self.role = HostRole.ENDED
        self.ended_at = 0.0
        """When its process ended, by the steady clock."""

        self.failures = 0
        """How many of its processes ended one after the other before they were ready."""

        self._config = config
        self._notices = notices
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the newest process."""
        return 0 if self._process is None else self._process.pid

    def fileno(self) -> int:
        """Return the descriptor at which notices arrive."""
        assert self._socket is not None
        return self._socket.fileno()

    def start(self) -> None:
        """Start a process; notices of an earlier one are dropped."""
        self.close()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(self._notices))
        environ = {name: value for name, value in os.environ.items() if name not in _OF_OTHER_MANAGERS}
        environ |= {NAME_VARIABLE: self.name, STATE_VARIABLE: str(self.state), "NOTIFY_SOCKET": str(self._notices)}
        setpriv = shutil.which("setpriv")
        bound = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
        program = str(Path(sys.executable).with_name("agtp"))
        with self.log.open("ab") as log:
            # A new session: Ctrl-C reaches the command alone, which stops the hosts in order.
            self._process = subprocess.Popen(
                [*bound, program, "run", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        self.role = HostRole.STARTING

    def read_notices(self) -> Iterator[Mapping[str, str]]:
        """Yield the notices that have arrived."""
        while self._socket is not None:
            try:
                octets = self._socket.recv(8192)
            except BlockingIOError:
                return
            lines = octets.decode(errors="replace").splitlines()
            yield {name: value for name, _, value in (line.partition("=") for line in lines)}

    def exit_status(self) -> int | None:
        """Return how the process ended, as :class:`subprocess.Popen` does; None while it lives."""
        return None if self._process is None else self._process.poll()

    @property
    def is_alive(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        if self._process is not None:
            self._process.send_signal(number)

    def end_children(self) -> None:
        """Kill what a process that was killed has left behind in its session."""
        with suppress(ProcessLookupError, PermissionError):
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)

    def log_tail(self) -> str:
        """Return the end of the log."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
        return ""

    def close(self) -> None:
        """Remove the socket of the notices."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._notices.unlink(missing_ok=True)


def role_of(notice: Mapping[str, str]) -> HostRole | None:
    """Return the role that a notice reports; None if it reports none."""
    if "STOPPING" in notice:
        return HostRole.STOPPING
    status = notice.get("STATUS", "")
    if not status or status.startswith("stopping"):
        return None
    return HostRole.STANDBY if status.startswith("standby, ") else HostRole.SERVING
