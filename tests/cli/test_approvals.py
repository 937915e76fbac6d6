"""``agtp approvals``, and what other commands say of calls that wait for a person: what is asked, shown and refused."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from agtphost.cli.approvals import HINTS
from agtphost.cli.root import agtp
from tests import forking
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer, Exchange
from tests.rows import each_row
from tests.system.hosting import BIN

ID = "apr-" + "0123456789abcdef" * 2
CALLER = "c" * 64
EXPIRES = "2026-11-22T14:00:00Z"


def entry(approval_id: str = ID, **members: Any) -> dict[str, Any]:
    """An approval as a host lists it."""
    return {
        "approval_id": approval_id,
        "digest": "d" * 64,
        "caller": CALLER,
        "label": "assistant",
        "assurance": "certificate",
        "method": "EXECUTE",
        "path": "/",
        "tool": "files.delete_file",
        "input": {"path": "old.txt"},
        "definition_digest": "e" * 64,
        "requested_at": "2026-11-22T13:45:00Z",
        "expires_at": EXPIRES,
        "proposed_audit_id": "a" * 64,
        "state": "pending",
        **members,
    }


def listing(*entries: dict[str, Any], decides: bool = True, **options: Any) -> Answer:
    result = {"approvals": list(entries), "count": len(entries), "decides": decides}
    return Answer({"status": 200, "result": result}, **options)


def holding(approval_id: str = ID) -> Answer:
    """What a host answers to a call that a person has to approve."""
    said = {"approval_id": approval_id, "expires_at": EXPIRES, "digest": "d" * 64, "remedy": "Wait."}
    body = {"status": 202, "reason": "approval-required", "explanation": "A person decides.", **said}
    return Answer(body, 202, headers=[("Retry-After", "1")])


def named(exchange: Exchange) -> str:
    """Whom the client certificate names."""
    return (exchange.subject or "").rpartition("CN=")[2]


def tool_answer(text: str) -> Answer:
    response = {"content": [{"type": "text", "text": text}], "isError": False}
    return Answer({"status": 200, "result": {"tool_response": response}})


# Lists


def test_ls(run: Run, server: AgtpServer) -> None:
    """What waits, as the registrar, who is not the caller; --state and --agent are asked of the host."""
    server.answers["QUERY", "/approvals"] = listing(entry(), entry("apr-2", tool="", label="", method="BOOK"))
    result = run("approvals", "ls")
    assert result.exit_code == 0, result.output
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["APPROVAL", "STATE", "AGENT", "CALL", "EXPIRES"]
    assert first.split() == [ID, "pending", "assistant", "files.delete_file", EXPIRES]
    assert second.split() == ["apr-2", "pending", CALLER, "BOOK", "/", EXPIRES]
    assert server.seen[0].input == {"state": "pending"} and named(server.seen[0]) == "registrar"
    assert run("approvals", "ls", "--state", "all", "--agent", "a" * 64, "--as", "demo").exit_code == 0
    assert server.seen[1].input == {"state": "all", "agent": "a" * 64} and server.seen[1].agent
    assert json.loads(run("approvals", "ls", "--json").stdout)[0] == entry()


def test_an_empty_list_says_so(run: Run, server: AgtpServer) -> None:
    """Nothing on standard output, and a list for machines."""
    server.answers["QUERY", "/approvals"] = listing()
    result = run("approvals", "ls", "--state", "rejected")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no call is rejected\n")
    assert json.loads(run("approvals", "ls", "--json").stdout) == []


def test_who_does_not_decide_is_told(run: Run, server: AgtpServer) -> None:
    """An empty list of somebody who sees its own calls alone says so, and how to become one who decides."""
    server.answers["QUERY", "/approvals"] = listing(decides=False)
    result = run("approvals", "ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "of this caller's own is pending" in result.stderr and "[[operator]]" in result.stderr


def test_a_long_list_is_read_to_its_end(run: Run, server: AgtpServer) -> None:
    """Part by part, each asked for as the host says."""

    def part(exchange: Exchange) -> Answer:
        if exchange.input.get("continuation_token") == "more":
            return listing(entry("apr-2"))
        return listing(entry("apr-1"), headers=[("Continuation-Token", "more")])

    server.answers["QUERY", "/approvals"] = part
    listed = json.loads(run("approvals", "ls", "--json").stdout)
    assert [each["approval_id"] for each in listed] == ["apr-1", "apr-2"]
    assert server.seen[1].input == {"state": "pending", "continuation_token": "more"}


def test_no_id_is_folded_on_a_narrow_terminal(server: AgtpServer, folder: Path) -> None:
    """Sixty columns: the table is folded elsewhere, and the whole id can be copied."""
    server.answers["QUERY", "/approvals"] = listing(entry(tool="files." + "delete_" * 12))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "60"}
    process = forking.start(
        [str(BIN / "agtp"), "approvals", "ls"], stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        pass
    assert process.wait(60) == 0
    lines = seen.decode().split("\r\n")
    assert sum(ID in line for line in lines) == 1, lines
    assert len([line for line in lines if line.strip()]) > 2, "it was not folded at all"


# One call


def test_show(run: Run, server: AgtpServer) -> None:
    """Everything that decides: who, what exactly, until when, what is left out."""
    decided: dict[str, Any] = {
        "state": "approved",
        "decided_by": "key:" + "f" * 64,
        "decided_at": "2026-11-22T13:50:00Z",
    }
    decided["operator"] = {"name": "anna", "key": "sha256:" + "0" * 64}
    server.answers["QUERY", "/approvals"] = listing(
        entry(
            **decided, use_by="2026-11-22T13:55:00Z", reason="ticket 4711", hidden=["password"], impact="irreversible"
        )
    )
    result = run("approvals", "show", ID)
    assert result.exit_code == 0, result.output
    told = dict(line.split("  ", 1) for line in result.stdout.partition("\ninput\n")[0].splitlines())
    told = {name: value.strip() for name, value in told.items()}
    assert (told["approval"], told["state"], told["tool"]) == (ID, "approved", "files.delete_file")
    assert told["agent"] == f"assistant ({CALLER})" and told["known by"] == "certificate"
    assert (told["reason"], told["use by"], told["impact"]) == ("ticket 4711", "2026-11-22T13:55:00Z", "irreversible")
    assert told["decided by"] == "anna (key:" + "f" * 64 + ")"
    assert json.loads(result.stdout.partition("\ninput\n")[2]) == {"path": "old.txt"}
    assert result.stderr == "hidden by [approvals] show: password\n"
    assert server.seen[0].input == {"id": ID}
    assert json.loads(run("approvals", "show", ID, "--json").stdout)["reason"] == "ticket 4711"


def test_what_is_not_there_says_what_to_do(run: Run, server: AgtpServer) -> None:
    """Also where a host answers with another one than was asked for."""
    server.answers["QUERY", "/approvals"] = listing(entry("apr-other"))
    result = run("approvals", "show", ID)
    assert result.exit_code == 1
    assert (
        "does not exist, or this caller may not decide about it" in result.stderr
        and "--as NAME" in result.stderr
        and "apr-other" not in result.output
    )


HOSTILE = (
    "delete\x1b[2J\x1b[1;1Hnothing",
    "a\nstate       approved",
    "a\rstate       approved",
    "\u202etxt.dlo",
    "\u2066\u2067x",
    "\u200bno\u00adthing",
    "\x9b31m",
    "tab\there",
    "Z" + "\u0334\u0302" * 40,
    "\u2028state approved",
)
OBEYED = "\x1b\r\u202e\u2066\u2067\u200b\u00ad\x9b\t\u2028"


@pytest.mark.release
@each_row(("text", "place"), product(HOSTILE, ["tool", "label", "description", "reason", "input", "name"]), ids=ascii)
def test_hostile_text_draws_nothing(run: Run, server: AgtpServer, text: str, place: str) -> None:
    """In ``show``, ``ls`` and ``approve`` what others wrote stays in its place; what is obeyed is written out."""
    given: dict[str, Any] = {place: text}
    if place == "input":
        given = {"input": {"path": text, "list": [text]}}
    if place == "name":
        given = {"input": {text: {text: 1}}}
    server.answers["QUERY", "/approvals"] = listing(entry(**given))
    plain = listing(entry())
    shown = run("approvals", "show", ID)
    listed = run("approvals", "ls")
    assert (shown.exit_code, listed.exit_code) == (0, 0), shown.output + listed.output
    for result in (shown, listed):
        assert not any(sign in result.stdout for sign in OBEYED), ascii(result.stdout)
        assert result.stdout.count("\u0334") <= 4 * (result.stdout.count("Z") + 1)
    server.answers["QUERY", "/approvals"] = plain
    innocent = run("approvals", "show", ID).stdout.splitlines()
    states = [line for line in shown.stdout.splitlines() if line.startswith("state")]
    assert states == [line for line in innocent if line.startswith("state")], shown.stdout
    if place in ("input", "name"):
        told = json.loads(shown.stdout.partition("\ninput\n")[2])
        assert told == given["input"], "what is shown is exactly what is asked for"


def test_look_alikes_can_be_written_out(run: Run, server: AgtpServer) -> None:
    """A Cyrillic letter among Latin ones: it is said that there is something, and ``--ascii`` shows which."""
    server.answers["QUERY", "/approvals"] = listing(entry(input={"path": "p\u0430yroll"}))
    result = run("approvals", "show", ID)
    assert "p\u0430yroll" in result.stdout and "--ascii" in result.stderr
    assert "p\\u0430yroll" in run("approvals", "show", ID, "--ascii").stdout
    server.answers["QUERY", "/approvals"] = listing(entry())
    assert "--ascii" not in run("approvals", "show", ID).stderr


# Decisions


@pytest.mark.parametrize(
    ("word", "status", "said"), [("approve", "accepted", "may be made once"), ("reject", "rejected", "is not made")]
)
def test_decisions(run: Run, server: AgtpServer, word: str, status: str, said: str) -> None:
    """CONFIRM of the approval, with the reason; the receipt for machines."""
    receipt = {"attestation_id": "att-1", "target_id": ID, "status": status, "use_by": EXPIRES}
    server.answers["CONFIRM", "/"] = Answer({"status": 200, "result": receipt})
    result = run("approvals", word, ID, "--reason", "ticket 4711")
    assert result.exit_code == 0, result.output
    assert ID in result.stdout and said in result.stdout
    assert server.seen[0].input == {"target_id": ID, "status": status, "reason": "ticket 4711"}
    assert named(server.seen[0]) == "registrar"
    assert json.loads(run("approvals", word, ID, "--json").stdout) == receipt
    assert server.seen[1].input == {"target_id": ID, "status": status}


@pytest.mark.parametrize(
    ("status", "reason"),
    [(403, "own-approval"), (404, "target-unknown"), (409, "already-decided"), (408, "approval-expired")],
)
def test_refused_decisions(run: Run, server: AgtpServer, status: int, reason: str) -> None:
    """Exit status 1, the reason, and the host's remedy."""
    body = {"status": status, "reason": reason, "explanation": "No.", "remedy": "Do this."}
    server.answers["CONFIRM", "/"] = Answer(body, status)
    result = run("approvals", "approve", ID)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"[{reason}]" in result.stderr and "Do this." in result.stderr
    assert HINTS.get(reason, "") in result.stderr


# Watching


def test_watch_prints_each_as_it_comes(server: AgtpServer, folder: Path) -> None:
    """First what waits, then what is new, each once, flushed; Ctrl-C ends it with status 0."""
    pages = [listing(entry("apr-1")), listing(entry("apr-1"), entry("apr-2")), listing(entry("apr-2")), listing()]

    def part(_: Exchange) -> Answer:
        return pages.pop(0) if len(pages) > 1 else pages[0]

    server.answers["QUERY", "/approvals"] = part
    process = forking.start(
        [str(BIN / "agtp"), "approvals", "watch", "--every", "0.2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    assert [first["approval_id"], second["approval_id"]] == ["apr-1", "apr-2"]
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, b""), errors


def test_watch_tells_people(server: AgtpServer, folder: Path) -> None:
    """A line each: id, agent, call, and the beginning of the input, none of which is obeyed."""
    server.answers["QUERY", "/approvals"] = listing(entry(tool="x\ny", input={"text": "\x1b[2J" + "a" * 500}))
    process = forking.start(
        [str(BIN / "agtp"), "approvals", "watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert line.startswith(f"{ID}  assistant  x\\x0ay  ") and line.endswith("...\n") and "\x1b" not in line
    assert len(line) < 250


def test_watch_of_a_host_that_is_not_there_ends(run: Run, folder: Path) -> None:
    """Only one that was there is waited for."""
    assert run("approvals", "watch").exit_code == 3


# Completion


def completed(words: list[str], incomplete: str) -> list[str]:
    found = BashComplete(agtp, {}, "agtp", "_AGTP_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


def test_ids_are_completed(server: AgtpServer, folder: Path) -> None:
    """Those that wait and begin so; with the connection that the line names; what no shell should see is left out."""
    server.answers["QUERY", "/approvals"] = listing(entry("apr-1"), entry("bpr-2"), entry("apr-\x1b3"))
    assert completed(["approvals", "approve"], "apr") == ["apr-1"]
    assert completed(["approvals", "show", "--as", "demo"], "") == ["apr-1", "bpr-2"]
    assert named(server.seen[1]) == "demo"


def test_completion_never_fails(folder: Path, tmp_path: Path) -> None:
    """No host, no configuration, a broken one: nothing is offered, and nothing is said."""
    assert completed(["approvals", "reject"], "") == []
    assert completed(["approvals", "reject", "--config", str(tmp_path / "nothing.toml")], "") == []
    (folder / "host.toml").write_text("not toml [")
    assert completed(["approvals", "reject"], "") == []


# Calls


def test_a_held_call_says_what_to_do(run: Run, server: AgtpServer) -> None:
    """Exit status 5, its own: nothing was done; the approval, until when, and both ways on; JSON on stdout alone."""
    server.answers["REMOVE", "/files"] = holding()
    result = run("call", "-", "REMOVE", "/files", "path=a")
    assert result.exit_code == 5
    for words in (
        "[approval-required]",
        f"agtp approvals show {ID}",
        EXPIRES,
        "--wait-approval",
        "The call was not made yet",
    ):
        assert words in result.stderr
    as_json = run("call", "-", "REMOVE", "/files", "path=a", "--json")
    assert as_json.exit_code == 5 and json.loads(as_json.stdout)["body"]["approval_id"] == ID
    server.answers["EXECUTE", "/"] = holding()
    held = run("tools", "call", "files.delete_file", "path=a")
    assert (held.exit_code, held.stdout) == (5, "") and ID in held.stderr
    as_json = run("tools", "call", "files.delete_file", "--json")
    assert as_json.exit_code == 5 and json.loads(as_json.stdout)["approval_id"] == ID


def test_another_202_is_a_success(run: Run, server: AgtpServer) -> None:
    """The control."""
    server.answers["REMOVE", "/files"] = Answer({"status": 202, "result": {"approval_id": ID}}, 202)
    assert run("call", "-", "REMOVE", "/files").exit_code == 0


@pytest.mark.parametrize("command", ["call", "tools"])
def test_waiting_for_an_approval(run: Run, server: AgtpServer, command: str) -> None:
    """It is said which, and the same call is made again until somebody has decided."""
    answers = [holding(), holding(), tool_answer("deleted")]

    def decide(_: Exchange) -> Answer:
        return answers.pop(0)

    server.answers["EXECUTE", "/"] = decide
    words = ("call", "-", "EXECUTE", "/", "a=b") if command == "call" else ("tools", "call", "files.delete_file")
    result = run(*words, "--wait-approval", "30")
    assert result.exit_code == 0, result.output
    assert "deleted" in result.stdout and f"held for a person: {ID}; waiting 30 s at most" in result.stderr
    assert len({(each.request.line, each.request.body) for each in server.seen}) == 1 and len(server.seen) == 3


@pytest.mark.parametrize(("words", "seconds"), [((), 0), (("--wait-approval", "30"), 30)])
def test_a_stream_says_how_long_it_waits(run: Run, server: AgtpServer, words: tuple[str, ...], seconds: int) -> None:
    """Not at all where nobody asked for it, so that a held call is told at once as it is without ``--stream``."""
    server.answers["EXECUTE", "/"] = tool_answer("done")
    assert run("tools", "call", "files.delete_note", "--stream", *words).exit_code == 0
    assert server.seen[0].body["context"] == {"stream": True, "approval_wait": seconds}


def test_waiting_in_vain(run: Run, server: AgtpServer) -> None:
    """When the seconds are over it is what it was; rejected it ends at once."""
    server.answers["REMOVE", "/files"] = holding()
    assert run("call", "-", "REMOVE", "/files", "--wait-approval", "0.1").exit_code == 5
    answers = [holding(), Answer({"status": 403, "reason": "approval-rejected"}, 403)]
    server.answers["REMOVE", "/files"] = lambda _: answers.pop(0)
    result = run("call", "-", "REMOVE", "/files", "--wait-approval", "600")
    assert result.exit_code == 1 and "[approval-rejected]" in result.stderr


def test_tools_ls_marks_what_a_person_approves(run: Run, server: AgtpServer) -> None:
    """A column of its own, where there is any such tool; none where there is not."""
    tools = [{"name": "files.delete_file", "approval": "required", "description": "D"}, {"name": "files.list"}]
    server.answers["DISCOVER", "/tools"] = Answer(tools)
    server.answers["DESCRIBE", "/"] = Answer({"result": {}})
    head, first, second = run("tools", "ls").stdout.splitlines()
    assert "APPROVAL" in head and "by a person" in first and "by a person" not in second
    server.answers["DISCOVER", "/tools"] = Answer(tools[1:])
    assert "APPROVAL" not in run("tools", "ls").stdout
