"""The command in a terminal: colour, identifiers in one piece, progress, and what a shell completes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from tests import forking
from tests.measuring import measured
from tests.rows import each_row
from tests.system.hosting import BIN, Host, running, sample

CLEAR = "\r\x1b[K"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample, with the record of a refused call."""
    with running(sample(tmp_path_factory.mktemp("terminal"), eager=True)) as started:
        started.agtp("tools", "call", "files.read_file", "path=welcome.txt", "--scope", "documents:query")
        yield started


def terminal(host: Host, *words: str, columns: int = 120, piped: bool = False, **environ: str) -> str:
    """
    What a command writes to a terminal of that width, with its escapes.

    :param piped: only standard error goes there.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {**os.environ}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        inherited.pop(name, None)
    process = forking.start(
        [BIN / "agtp", *words],
        stdin=theirs,
        stdout=subprocess.DEVNULL if piped else theirs,
        stderr=theirs,
        cwd=host.config.parent,
        env={**inherited, "TERM": "xterm", **environ},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:
            break  # The other end is closed.
        if not piece:
            break
        said += piece
    os.close(ours)
    process.wait(60)
    return said.decode().replace("\r\n", "\n")


def test_verdicts_have_colours_on_a_terminal(host: Host) -> None:
    """Green for yes, red for no; none with NO_COLOR, none where a program reads."""
    assert terminal(host, "can", "demo", "DISCOVER", "/methods").startswith("\x1b[32myes: demo may call DISCOVER")
    words = ("can", "demo", "files.read_file", "--scope", "documents:query")
    assert terminal(host, *words).startswith("\x1b[31mno: demo may not call files.read_file")
    assert "\x1b" not in terminal(host, *words, NO_COLOR="1")
    assert "\x1b" not in host.agtp(*words).stdout


def test_colour_can_be_forced(host: Host) -> None:
    """FORCE_COLOR, where a pager shows them."""
    environ = {**os.environ, "FORCE_COLOR": "1", "NO_COLOR": ""}
    done = forking.run([BIN / "agtp", "can", "demo", "DISCOVER", "/methods"], cwd=host.config.parent, env=environ)
    assert done.stdout.startswith("\x1b[32myes")


@pytest.mark.parametrize("columns", [100, 50])
def test_identifiers_are_never_wrapped(host: Host, columns: int) -> None:
    """Short in a terminal of any width, each on one line; whole with --wide; --json has whole ones."""
    [entry] = json.loads(host.agtp("audit", "walk", "host", "-n", "1", "--json").stdout)
    audit_id = entry["audit_id"]
    # The questions of the test are records, too.
    short = ESCAPE.sub("", terminal(host, "audit", "walk", "host", "-n", "4", columns=columns))
    assert audit_id not in short
    assert re.search(rf"\b{audit_id[:12]}\b", short), short
    assert entry["payload"]["issued_at"] in short, "times stay in one piece"
    wide = ESCAPE.sub("", terminal(host, "audit", "walk", "host", "-n", "6", "--wide", columns=columns))
    assert audit_id in wide
    assert audit_id in host.agtp("audit", "walk", "host", "-n", "8").stdout, "what a program reads is cut nowhere"


def test_the_beginning_of_an_audit_id_is_enough(host: Host) -> None:
    """What a table shows can be given back; what is nobody's, or too short, is said."""
    audit_id = host.agtp("audit", "walk", "host", "-n", "1", "--ids").stdout.strip()
    assert host.agtp_json("explain", audit_id[:12])["audit_id"] == audit_id
    assert host.agtp_json("audit", "get", audit_id[:12])["audit_id"] == audit_id
    for given, said in ((audit_id[:2], "too short"), ("0" * 20, "no recent record"), ("xyz", "64 lower-case")):
        refused = host.agtp("explain", given)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr


LONG = {
    "verify": ("audit", "verify"),
    "export": ("audit", "export", "--output", "records.jsonl"),
    "import": ("openapi", "import", "service.json", "--out", "imported"),
    "conformance": ("conformance", "--only", "wire.line-http"),
}
"""Commands that may take long, and what makes them short here."""

SERVICE = json.dumps(
    {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {"/orders": {"get": {"operationId": "listOrders", "responses": {"200": {"description": "All."}}}}},
    }
)


@each_row("command", LONG)
def test_progress_is_for_people(host: Host, command: str) -> None:
    """None where nobody watches, and none with --json; a line that is gone at the end, on a terminal."""
    folder, words = host.config.parent, LONG[command]
    (folder / "service.json").write_text(SERVICE)

    def again() -> None:
        (folder / "records.jsonl").unlink(missing_ok=True)
        shutil.rmtree(folder / "imported", ignore_errors=True)

    again()
    assert "\r" not in host.agtp(*words).stderr
    again()
    assert CLEAR not in terminal(host, *words, "--json", piped=True)
    again()
    *lines, after = terminal(host, *words, piped=True).split(CLEAR)
    assert lines and re.fullmatch(r"(wrote \S+\n)?", after), "the line is gone at the end"
    again()


def test_a_verdict_follows_the_progress(host: Host) -> None:
    """On a line that is clean."""
    _, verdict = terminal(host, "audit", "verify").rsplit(CLEAR, 1)
    assert verdict.startswith("\x1b[1mCHAIN") and "\x1b[32mverified: " in verdict


def completed(host: Host, *words: str, shell: str = "bash") -> list[str]:
    """What a shell is told, the last word being begun."""
    environ = {"_AGTP_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(("agtp", *words))}
    environ["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    done = forking.run([BIN / "agtp"], cwd=host.config.parent, env={**os.environ, **environ})
    assert not done.stderr, done.stderr
    if shell == "zsh":
        return done.stdout.splitlines()[1::3]
    parted = (re.split("[,\t]", line) for line in done.stdout.splitlines() if line)
    return [parts[1] for parts in parted if len(parts) > 1]


def test_what_a_shell_completes(host: Host) -> None:
    """Agents, tools, methods, paths and Audit-IDs, by what a command takes; in each shell."""
    assert {"demo", "librarian"} <= {*completed(host, "can", "")}
    assert completed(host, "can", "any") == ["anyone"]
    assert "files.read_file" in completed(host, "can", "demo", "files.")
    assert completed(host, "can", "demo", "QUER") == ["QUERY"]
    for verb in ("allow", "limit", "ungrant"):
        assert {"files.read_file", "files.*"} <= {*completed(host, "agent", verb, "demo", "files.")}, verb
    assert "/library/{isbn}" in completed(host, "call", "-", "QUERY", "/lib")
    assert completed(host, "tools", "call", "--as", "reg") == ["registrar"]
    audit_id = host.agtp("audit", "walk", "host", "-n", "1", "--ids").stdout.strip()
    assert completed(host, "explain", audit_id[:8]) == [audit_id]
    for shell in ("zsh", "fish"):
        assert completed(host, "can", "demo", "files.read", shell=shell) == ["files.read_file"]


@measured
def test_completion_is_quick_and_silent(host: Host) -> None:
    """Where nothing can be read there is nothing to complete, and nothing is said; what is read is read quickly."""
    assert completed(host, "can", "--config", "/nowhere.toml", "d") == []
    began = time.process_time()
    import click

    from agtphost.cli.completion_sources import KINDS

    context = click.Context(click.Command("can"))
    context.params["config"] = host.config
    for token, words in KINDS:
        if token in ("AGENT", "TOOL", "PATH", "AUDIT_ID"):
            assert [*words(context, "")], token
    assert time.process_time() - began < 0.3
