"""A command that is forked does what one in a new interpreter does: its host, its answers, its end."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import forking
from tests.programmes import length
from tests.system.hosting import BIN, ETC, Host, running, sample, until
from tests.system.test_check_agrees import with_service

NEW = ("env",)
"""A program before the command: it gets an interpreter of its own."""

PASSING = re.compile(
    r"^\S+ |[0-9a-f]{64}|\b[0-9]+ ms\b|pid [0-9]+|[0-9.]+ MiB|Z\b|\d{4}-\d\d-\d\dT[0-9:.]+|(?<=/)python[0-9.]*(?= )"
)
"""Times, ids, sizes, and by which of its names an environment's interpreter was started."""


def lines(host: Host) -> list[str]:
    return [PASSING.sub("", line) for line in host.lines]


def is_forked(host: Host) -> bool:
    return b"forkserver.py" in Path(f"/proc/{host.process.pid}/cmdline").read_bytes()


def connected(host: Host) -> bool:
    """Return whether the host has a connection that it has not closed yet."""
    return {each.status for each in psutil.Process(host.process.pid).net_connections("tcp")} != {"LISTEN"}


@pytest.mark.release
def test_a_forked_host_is_the_same_host(tmp_path: Path) -> None:
    """It says the same while it starts and stops, answers the same, and is another process."""
    config = sample(tmp_path)
    with running(config):
        pass  # Makes keys and the store.
    seen = []
    for prefix in (NEW, ()):
        with running(config, prefix=prefix, environ={"SEEN": "yes"}) as host:
            assert is_forked(host) == (not prefix)
            manifest = json.dumps(host.agtp_json("call", "-", "DISCOVER")["body"])
            tools = host.agtp_json("tools", "ls")
            folder = Path(f"/proc/{host.process.pid}/cwd").readlink()
            until(lambda: not connected(host))
            files = sorted(os.listdir(f"/proc/{host.process.pid}/fd"))
        assert host.process.returncode == 0
        seen.append((lines(host), PASSING.sub("", manifest), tools, folder, len(files)))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) > 5 and "METHODS" in seen[0][1].upper()


COMMANDS = {
    "help": ("--help",),
    "a table": ("methods",),
    "wrong usage": ("call", "--no-such-option"),
    "no such command": ("no-such-command",),
    "a failure": ("check", "no-such-file.toml"),
}


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize("name", length(("a table", "a failure"), tuple(COMMANDS)))
def test_a_forked_command_writes_the_same_and_ends_the_same(name: str, tmp_path: Path) -> None:
    """Standard output, standard error and the exit status."""
    words = [BIN / "agtp", *COMMANDS[name]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    forked = forking.run(words, cwd=tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (done.returncode, done.stdout, done.stderr)
    assert forked.stdout + forked.stderr


def command(*words: str | Path, folder: Path) -> forking.Command:
    """Begin a command in a process that may have run others."""
    pipe = subprocess.PIPE
    return forking.Command([BIN / "agtp", *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder)


CONFIGURATION = """
[host]
server_id = "localhost"
profile = "development"

[endpoints]
directory = "endpoints"
python_path = ["."]
"""

ENDPOINT = """
[[endpoint]]
method = "QUERY"
path = "/own"
description = "Answers a question."
handler = { type = "registered_function", function = "own_module.absent" }
"""


def test_commands_share_a_process_until_one_leaves_something_in_it(tmp_path: Path) -> None:
    """Each has its own output, directory and status; the last is one that imports an own module, or that is killed."""
    here = tmp_path / "here"
    (here / "endpoints").mkdir(parents=True)
    (here / "wrong.toml").write_text("nothing = 1\n")
    (here / "host.toml").write_text(CONFIGURATION)
    (here / "own_module.py").write_text("")
    (here / "endpoints" / "own.toml").write_text(ENDPOINT)
    ran = []
    for words in (
        ("--version",),
        ("no-such-command",),
        ("check", "wrong.toml"),
        ("check", "host.toml"),
        ("--version",),
    ):
        with command(*words, folder=here) as process:
            output, errors = process.communicate()
        ran.append((process.pid, process.returncode, output, errors))
    (first, *one), (second, *wrong), (third, *checked), (last_of_first, *own), (fourth, *other) = ran
    assert first == second == third == last_of_first != fourth
    assert own[0] == 2 and "own_module" in own[1] + own[2]
    assert one == other and one[0] == 0 and one[1]
    assert wrong[0] == 2 and "no-such-command" in wrong[2]
    assert checked[0] == 2 and "nothing" in checked[1] + checked[2]
    with command("agis", "validate", "-", folder=tmp_path) as killed:
        killed.send_signal(signal.SIGTERM)
        assert killed.wait(60) == -signal.SIGTERM and killed.pid == fourth
    with command("--version", folder=tmp_path) as last:
        assert (last.communicate()[0], last.returncode) == (one[1], 0) and last.pid != fourth


ENDS = {
    "nothing": "pass",
    "a status": "sys.exit(3)",
    "a status that is no octet": "sys.exit(257)",
    "a text": "sys.exit('why')",
    "a failure": "raise ValueError('why')",
    "an interruption": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_forked_program_does_at_its_end_what_every_program_does(name: str, tmp_path: Path) -> None:
    """Threads are waited for, what is registered for the exit is done, and what was written arrives."""
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, sys, threading, time\n"
        "atexit.register(lambda: print('at exit'))\n"
        "gone = threading.Event()\n"
        "threading.Thread(target=lambda: (gone.wait(), print('a thread'))).start()\n"
        "threading.Timer(0.05, gone.set).start()\n"
        "print('written', end=' ')\n"
        f"{ENDS[name]}\n"
    )
    done = [
        subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        for words in ([sys.executable, script], forking.launched(forking.product(), script))
    ]
    assert [each.stdout for each in done] == ["written a thread\nat exit\n"] * 2
    assert done[0].returncode == done[1].returncode
    assert done[0].stderr.splitlines()[-1:] == done[1].stderr.splitlines()[-1:]


def test_a_signal_ends_it_and_is_its_status(tmp_path: Path) -> None:
    """As of any child: what killed it, once; and it is gone."""
    host = Host(sample(tmp_path)).wait()
    assert host.process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        host.process.wait(0.01)
    host.process.send_signal(signal.SIGKILL)
    assert host.process.wait(60) == host.process.poll() == -signal.SIGKILL
    assert not Path(f"/proc/{host.process.pid}").exists()


@pytest.mark.release
def test_its_environment_is_what_is_given(tmp_path: Path) -> None:
    """Nothing of the process that forks; and an interpreter with variables of its own is a new one."""
    config = sample(tmp_path)
    with_service(config)
    words = [BIN / "agtp", "check", config]
    assert forking.run(words, env={"NO_SUCH_VARIABLE": "x"}).returncode == 0
    without = forking.run(words, env={})
    assert without.returncode == 2 and "NO_SUCH_VARIABLE" in without.stderr, without.stderr
    plain = forking.start(words, env={**os.environ, "NO_COLOR": "1"}, stderr=subprocess.DEVNULL)
    own = forking.start(words, env={**os.environ, "PYTHONUTF8": "1"}, stderr=subprocess.DEVNULL)
    with plain, own:
        assert [isinstance(process, forking.Popen) for process in (plain, own)] == [True, False]


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
INITIALIZE += b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize("end", length((None, signal.SIGTERM), (None, signal.SIGTERM, signal.SIGKILL)))
def test_a_server_that_others_start_is_the_same_server(tmp_path: Path, end: signal.Signals | None) -> None:
    """It answers the same, and ends the same with the process that was started: nothing has its output open after."""
    script, pipe = ETC / "mcp" / "files_server.py", subprocess.PIPE
    seen = []
    for words in ([sys.executable, str(script), str(tmp_path)], forking.mcp_server(script, tmp_path)):
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as server:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write(INITIALIZE)
            server.stdin.flush()
            said = server.stdout.readline()
            if end is None:
                server.stdin.close()
            else:
                server.send_signal(end)
            assert server.stdout.read() == b""
        seen.append((said, server.returncode))
    assert seen[0] == seen[1] and b"serverInfo" in seen[0][0]


def test_it_inherits_what_a_child_would(tmp_path: Path) -> None:
    """The cores, the priority and the limit of descriptors of the thread that starts it."""
    cores, limit = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    forking.product()
    try:
        os.sched_setaffinity(0, {min(cores)})
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, limit[1]))
        words = [BIN / "agtp", "document", "verify", "-"]
        with forking.start(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as waits:
            assert os.sched_getaffinity(waits.pid) == {min(cores)}
            assert resource.prlimit(waits.pid, resource.RLIMIT_NOFILE)[0] == 300
            assert os.getpriority(os.PRIO_PROCESS, waits.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_a_command_that_nobody_waited_for_breaks_no_later_one() -> None:
    """It is collected with its socket; :mod:`subprocess` keeps it, and asks after it whenever it starts another."""
    left = forking.start([BIN / "agtp", "--help"], stdout=subprocess.DEVNULL)
    assert isinstance(left, forking.Popen)
    left._connection.close()
    left._answers.close()
    assert left.poll() is not None
    assert subprocess.run(["true"], check=False).returncode == 0
