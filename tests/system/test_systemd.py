"""A host as systemd starts it: a test plays the manager, with the sockets, the credentials and the watchdog of one."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agtphost.cli.units import SERVICE, SOCKET, TEMPLATE, service_unit, socket_unit, template_unit
from agtphost.client.sync import Client
from tests import forking, postgres
from tests.system.hosting import BIN, ETC, agtp, sample
from tests.system.scraping import ask

ACTIVATED = """
import fcntl, os, sys
# As systemd does it between fork and exec: the sockets from 3 on, and whose they are.
handed = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[1].split(",")]
for place, number in enumerate(handed):
    os.dup2(number, 3 + place, inheritable=True)
pid = str(os.getpid())
os.environ.update(LISTEN_PID=pid, WATCHDOG_PID=pid, LISTEN_FDS=str(len(handed)))
os.execv(sys.argv[2], sys.argv[2:])
"""

TOKEN = "credential-" + "0123456789abcdef0123456789abcdef"


class Manager:
    """What systemd is to a unit with two sockets, a credential and a watchdog."""

    def __init__(self, config: Path, folder: Path) -> None:
        self.config = config
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
        self.ports = [each.getsockname()[1] for each in self.sockets]
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(folder / "notify"))
        self.told.settimeout(30)
        self.credentials = folder / "credentials"
        self.credentials.mkdir()
        (self.credentials / "front").write_text(TOKEN)
        self.log = folder / "log"
        self.environ = {
            **os.environ,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": "400000",
            "LISTEN_FDNAMES": "agtp:watched",
            "CREDENTIALS_DIRECTORY": str(self.credentials),
        }

    def start(self) -> None:
        numbers = [each.fileno() for each in self.sockets]
        words = [sys.executable, "-c", ACTIVATED, ",".join(map(str, numbers))]
        twistd = [str(BIN / "twistd"), "-n", "--pidfile=", "agtp", "--config", str(self.config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                # A program, not a script with a line that finds it: execv runs the interpreter.
                [*words, sys.executable, *twistd],
                cwd=self.config.parent,
                env=self.environ,
                pass_fds=numbers,
                stdout=log,
                stderr=log,
            )

    def instance(self, number: str) -> Manager:
        """Return what systemd is to an instance of the template unit: with the same sockets."""
        made = copy.copy(self)
        folder = self.config.parent / number
        folder.mkdir()
        made.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.told.bind(str(folder / "notify"))
        made.told.settimeout(60)
        made.log = folder / "log"
        (name,) = re.findall(r"AGTPHOST_CLUSTER_NAME=(\S+)", (ETC / "systemd" / TEMPLATE).read_text())
        made.environ = {
            **self.environ,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": "60000000",
            "AGTPHOST_CLUSTER_NAME": name.replace("%H", "m").replace("%i", number),
            "AGTPHOST_STATE_DIR": str(folder / "state"),
        }
        return made

    def until(self, wanted: Callable[[str], bool]) -> list[str]:
        """Every word up to the one that is wanted."""
        words = []
        while True:
            try:
                words.append(self.told.recv(4096).decode())
            except TimeoutError:
                raise AssertionError(f"{words}\n{self.log.read_text()[-3000:]}") from None
            if wanted(words[-1]):
                return words

    def drained(self) -> int:
        """How many words there are now; they are thrown away."""
        self.told.setblocking(False)
        count = 0
        try:
            while True:
                self.told.recv(4096)
                count += 1
        except BlockingIOError:
            return count
        finally:
            self.told.settimeout(30)


@contextmanager
def managed(folder: Path) -> Iterator[Manager]:
    config = sample(folder)
    manager = Manager(config, folder)
    port = re.search(r"port = [0-9]+", config.read_text())
    assert port is not None
    # What the socket unit says, once more, for commands.
    listen = f'endpoint = "systemd:domain=INET:name=agtp"\nport = {manager.ports[0]}'
    text = config.read_text().replace(port.group(), listen)
    text += '\n[metrics]\nlisten = "ssl:systemd:domain=INET:name=watched"\n'
    text += '\n[[http.client]]\nname = "front"\ntoken = "credential:front"\nagent = "demo"\n'
    config.write_text(text)
    try:
        yield manager
    finally:
        manager.process.kill()
        manager.process.wait(60)
        for each in (*manager.sockets, manager.told):
            each.close()


def test_a_life_under_a_manager(tmp_path: Path) -> None:
    """
    Who connects before there is a host is answered by it; both sockets serve what their names say. The manager hears
    READY once calls are answered, that the host lives, the beginning and the end of a reload, and the stop.
    """
    with managed(tmp_path) as manager:
        early = socket.create_connection(("127.0.0.1", manager.ports[0]), timeout=60)
        manager.start()
        words = manager.until(lambda word: "READY=1" in word)
        assert words[-1].startswith("READY=1\nSTATUS=serving at agtp://127.0.0.1:")
        assert not any("READY=1" in word for word in words[:-1])
        state = manager.config.parent / "state"
        # Unlike whoever refused it: TLS comes about on the connection that waited.
        context = ssl.create_default_context(cafile=state / "ca.pem")
        with context.wrap_socket(early, server_hostname="localhost") as waited:
            assert waited.version() == "TLSv1.3"
        with Client(trust=state / "ca.pem") as client:
            assert client.call(f"agtp://127.0.0.1:{manager.ports[0]}", "DISCOVER", "/methods").status == 200
        status, _, body = ask(manager.ports[1], "/readyz", tls=context, name="localhost")
        assert (status, body) == (200, b'{"status":"ready"}')

        given = {"CREDENTIALS_DIRECTORY": str(manager.credentials)}
        command = forking.run([BIN / "agtp", "status"], cwd=manager.config.parent, env={**os.environ, **given})
        assert command.returncode == 0 and "ready" in command.stdout, command.stderr

        manager.until(lambda word: "WATCHDOG=1" in word)
        manager.process.send_signal(signal.SIGHUP)
        words = manager.until(lambda word: "READY=1" in word)
        reloading = [word for word in words if "RELOADING=1" in word]
        assert len(reloading) == 1 and "\nMONOTONIC_USEC=" in reloading[0]

        manager.process.send_signal(signal.SIGTERM)
        manager.until(lambda word: word.startswith("STOPPING=1"))
        assert manager.process.wait(60) == 0
        assert TOKEN not in manager.log.read_text()
        # The sockets are the manager's: nobody who connects between two lives is refused.
        socket.create_connection(("127.0.0.1", manager.ports[0]), timeout=10).close()

        again = agtp("check", str(manager.config))
        assert again.returncode == 2 and "CREDENTIALS_DIRECTORY is not set" in again.stderr, again.stderr


def ask_status(manager: Manager, instance: Manager) -> str:
    """Return the state that ``agtp status`` shows of an instance."""
    words = [str(BIN / "agtp"), "status", "--json", "--config", str(manager.config)]
    shown = forking.run(words, cwd=manager.config.parent, env=instance.environ)
    return str(json.loads(shown.stdout)["state"])


@contextmanager
def two_instances(folder: Path) -> Iterator[tuple[Manager, Manager]]:
    """Two instances of the template unit with one store and copies of one state; the first serves."""
    server = postgres.server()
    with managed(folder) as manager:
        with manager.config.open("a") as config:
            config.write(f'\n[store]\nurl = "{server.url(server.schema(folder))}"\n')
        given = {"CREDENTIALS_DIRECTORY": str(manager.credentials)}
        made = forking.run([BIN / "agtp", "store", "init"], cwd=manager.config.parent, env={**os.environ, **given})
        assert made.returncode == 0, made.stderr
        one, two = manager.instance("1"), manager.instance("2")
        one.start()
        try:
            one.until(lambda word: "READY=1" in word)
            shutil.copytree(state_of(one), state_of(two))
            yield one, two
        finally:
            for each in (one, two):
                each.told.close()
                if hasattr(each, "process"):
                    each.process.kill()
                    each.process.wait(60)
            manager.process = one.process


def state_of(instance: Manager) -> Path:
    """Return the state directory of an instance."""
    return Path(instance.environ["AGTPHOST_STATE_DIR"])


@postgres.needed
@pytest.mark.release
def test_two_instances_take_turns_at_one_port(tmp_path: Path) -> None:
    """The template unit: the port is there while one hands over to the other, and who connects then is served."""
    with two_instances(tmp_path) as (one, two):
        for here, other in ((one, two), (two, one), (one, two)):
            other.start()
            other.until(lambda word: "READY=1" in word and "STATUS=standby" in word)
            # The port is one, so the state directory tells whose state a command asks for.
            assert [ask_status(one, each) for each in (here, other)] == ["ready", "standby"]
            with Client(trust=state_of(one) / "ca.pem") as client:
                uri = f"agtp://127.0.0.1:{one.ports[0]}"
                assert client.call(uri, "DISCOVER", "/methods").status == 200
                here.process.send_signal(signal.SIGTERM)
                assert here.process.wait(60) == 0
                assert client.call(uri, "DISCOVER", "/methods").status == 200
            other.until(lambda word: "STATUS=serving" in word)


@postgres.needed
def test_a_socket_serves_after_a_standby_has_used_and_tried_it(tmp_path: Path) -> None:
    """A standby answers probes at one socket, and tries changed files with the other; then it serves at both."""
    with two_instances(tmp_path) as (one, two):
        two.start()
        two.until(lambda word: "READY=1" in word and "STATUS=standby" in word)
        endpoint = one.config.parent / "endpoints" / "text.toml"
        endpoint.write_text(endpoint.read_text() + "\n# changed\n")
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(60) == 0
        two.until(lambda word: "STATUS=serving" in word)
        assert "read again, because it has changed: endpoints" in two.log.read_text()
        with Client(trust=state_of(two) / "ca.pem") as client:
            assert client.call(f"agtp://127.0.0.1:{two.ports[0]}", "DISCOVER", "/methods").status == 200
        context = ssl.create_default_context(cafile=state_of(two) / "ca.pem")
        assert ask(two.ports[1], "/readyz", tls=context, name="localhost")[0] == 200


def test_a_host_that_hangs_is_not_alive(tmp_path: Path) -> None:
    """The control: a reactor that does not turn says nothing, and systemd ends what says nothing."""
    with managed(tmp_path) as manager:
        manager.start()
        manager.until(lambda word: "WATCHDOG=1" in word)
        manager.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, manager.process.pid, os.WSTOPPED)
        manager.drained()
        # Three times what the manager waits for.
        manager.told.settimeout(1.2)
        with pytest.raises(TimeoutError):
            manager.told.recv(4096)
        manager.told.settimeout(60)
        manager.process.send_signal(signal.SIGCONT)
        manager.until(lambda word: "WATCHDOG=1" in word)


def test_units_are_one_text() -> None:
    """What lies under ``etc/systemd`` is the template of the package, for one place."""
    here = ETC / "systemd"
    twistd = Path("/opt/agtphost/bin/twistd")
    unit = service_unit(Path("/etc/agtphost"), state=Path("/var/lib/agtphost"), twistd=twistd, user="agtphost")
    assert (here / SERVICE).read_text() == unit
    assert (here / SOCKET).read_text() == socket_unit(4480)
    unit = template_unit(Path("/etc/agtphost"), state=Path("/var/lib/agtphost"), twistd=twistd, user="agtphost")
    assert (here / TEMPLATE).read_text() == unit
    with pytest.raises(ValueError, match="blanks"):
        service_unit(Path("/etc/my host"))


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt-get install systemd"
)
@pytest.mark.parametrize("broken", [False, True])
def test_systemd_takes_the_units(tmp_path: Path, broken: bool) -> None:
    """Its own check finds nothing; a setting that it does not know, it names. Little is exposed."""
    (tmp_path / "twistd").write_text("#!/bin/sh\n")
    (tmp_path / "twistd").chmod(0o755)
    unit = service_unit(Path("/etc/agtphost"), twistd=tmp_path / "twistd", user="daemon")
    (tmp_path / SERVICE).write_text(unit.replace("NoNewPrivileges", "NoNewPrivilege") if broken else unit)
    (tmp_path / SOCKET).write_text(socket_unit(4480))
    units = [SERVICE, SOCKET, "agtphost@1.service"]
    shared = template_unit(Path("/etc/agtphost"), state=Path("/var/lib"), twistd=tmp_path / "twistd", user="daemon")
    (tmp_path / units[2]).write_text(shared)
    words = ["systemd-analyze", "--no-pager", "verify", "--man=no", *(str(tmp_path / each) for each in units)]
    verified = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if broken:
        assert "'NoNewPrivilege'" in verified.stderr
        return
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stderr
    # An exposure of 2.0 of 10 at most.
    words = ["systemd-analyze", "--no-pager", "security", "--offline=true", "--threshold=20", str(tmp_path / SERVICE)]
    assessed = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert assessed.returncode == 0, assessed.stdout[-300:]
