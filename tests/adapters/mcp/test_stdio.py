"""Stdio servers as real processes, most of them hostile: T-MC-1 to T-MC-60."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, DeferredList

from agtphost.adapters.mcp import McpServer, UpstreamState
from agtphost.upstream.failures import (
    AnswerTooLong,
    ErrorAnswer,
    NotReading,
    UnreadableAnswer,
    UpstreamBusy,
    UpstreamFailure,
    UpstreamLost,
    UpstreamTimeout,
)
from tests.adapters.mcp.hosting import alive, heard, history, hosted, hostile, pause, sdk, until
from tests.measuring import measured


def call(server: McpServer, tool: str = "work", within: float = 10.0, **arguments: Any) -> Deferred[Any]:
    """One call, begun now."""
    return Deferred.fromCoroutine(server.call_tool(tool, arguments, {}, within))


async def failure_of(calling: Deferred[Any]) -> UpstreamFailure:
    """How a call fails; fails the test when it does not."""
    with pytest.raises(UpstreamFailure) as caught:
        await calling
    return caught.value


@pytest.mark.parametrize("protocol", ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
@pytest_twisted.ensureDeferred
async def test_the_official_sdk_in_every_version(protocol: str) -> None:
    """
    AGTP-273: negotiation, pages, calls, structured content, progress noise and errors of the official
    SDK.
    """
    async with hosted(sdk("stdio"), protocol=protocol) as server:
        seen = server.snapshot()
        assert seen.version == ("2026-07-28" if protocol == "auto" else protocol)
        assert seen.era == ("stateless" if protocol in ("auto", "2026-07-28") else "handshake")
        assert seen.server["name"] == "fixture"
        assert {"add", "echo", "fail", "noisy"} <= set(server.catalogue.bindings)
        result = await call(server, "add", a=2, b=3)
        assert result["content"] == [{"type": "text", "text": "5"}]
        assert (await call(server, "echo", text="ü\n\u2028\0"))["content"][0]["text"] == "ü\n\u2028\0"
        assert (await call(server, "noisy", times=20))["content"][0]["text"] == "done"
        failed = await call(server, "fail", reason="because")
        assert failed["isError"] is True
        assert "because" in failed["content"][0]["text"]


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest_twisted.ensureDeferred
async def test_changed_tools_are_listed_anew(protocol: str) -> None:
    """Both eras: a notification, or the subscription, brings the new tool into the catalogue."""
    async with hosted(sdk("stdio"), protocol=protocol) as server:
        await call(server, "grow")
        await until(lambda: "grown" in server.catalogue.bindings)
        assert await call(server, "grown")


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest_twisted.ensureDeferred
async def test_a_deadline_reaches_the_server(protocol: str) -> None:
    """
    A call that ends at its deadline is cancelled inside the server too, and other calls go on meanwhile.
    """
    async with hosted(sdk("stdio"), protocol=protocol) as server:
        for within in (0.3, 3.0, 20.0):  # As long as its server takes to begin.
            slow = call(server, "sleep", within, seconds=300)
            assert (await call(server, "add", a=1, b=1))["content"][0]["text"] == "2"
            assert isinstance(await failure_of(slow), UpstreamTimeout)
            if await history(server):
                break
        assert await heard("cancelled", lambda: history(server)) == ["began", "cancelled"]


@pytest.mark.parametrize("code", [0, 1, 42])
@pytest_twisted.ensureDeferred
async def test_a_crash_fails_every_call_at_once(code: int) -> None:
    """
    T-MC-1: all pending calls fail together with the exit code; the server comes back, and the calls do
    not.
    """
    async with hosted(hostile("crash", code)) as server:
        calls = [call(server) for _ in range(12)]
        failures = [await failure_of(each) for each in calls]
        assert [(type(f), getattr(f, "exit_code", None)) for f in failures] == [(UpstreamLost, code)] * 12
        assert server.state is UpstreamState.BACKOFF
        await until(lambda: server.state is UpstreamState.UP)
        assert server.snapshot().restarts == 1


@measured
@pytest_twisted.ensureDeferred
async def test_a_crash_is_noticed_in_milliseconds() -> None:
    """
    T-MC-2: from the kill of the process to the failure of its call; one of forty has to be undisturbed, as machines
    are shared.
    """
    delays: list[float] = []
    while len(delays) < 40 and min(delays, default=1.0) >= 0.010:
        async with hosted(hostile("hang")) as server:
            pending = call(server)
            await pause(0.02)
            child = psutil.Process(server.snapshot().pid).children()[0].pid
            began = time.monotonic()
            os.kill(child, signal.SIGKILL)
            failure = await failure_of(pending)
            delays.append(time.monotonic() - began)
            assert isinstance(failure, UpstreamLost)
            assert failure.signal == signal.SIGKILL
    assert min(delays) < 0.010, delays


@pytest_twisted.ensureDeferred
async def test_a_signal_is_named() -> None:
    """T-MC-3: a segmentation fault is reported as its signal."""
    async with hosted(hostile("segfault")) as server:
        failure = await failure_of(call(server))
        assert isinstance(failure, UpstreamLost)
        assert failure.signal == signal.SIGSEGV


@pytest_twisted.ensureDeferred
async def test_an_answer_before_the_end_still_counts() -> None:
    """T-MC-4: what was written before exiting is read."""
    async with hosted(hostile("answer-then-exit")) as server:
        assert (await call(server))["content"][0]["text"] == "done"
        await until(lambda: server.state is UpstreamState.BACKOFF)


@pytest.mark.parametrize("fault", ["close-stdout", "close-stdin", "half-line"])
@pytest_twisted.ensureDeferred
async def test_closed_descriptors_end_the_server(fault: str) -> None:
    """T-MC-5: a closed output or input, or an end in the middle of a line, fails the call, long before its deadline."""
    async with hosted(hostile(fault)) as server:
        began = time.monotonic()
        first = call(server, within=60)
        await pause(0.05)
        second = call(server, within=60)
        assert isinstance(await failure_of(first), UpstreamFailure)
        assert isinstance(await failure_of(second), UpstreamFailure)
        assert time.monotonic() - began < 30
        assert server.state is not UpstreamState.UP


@pytest_twisted.ensureDeferred
async def test_garbage_is_tolerated_and_counted() -> None:
    """
    T-MC-6: text, NULs, broken UTF-8, other JSON and deep nesting on the output do not disturb the answer.
    """
    async with hosted(hostile("garbage")) as server:
        assert (await call(server))["content"][0]["text"] == "done"
        link = server.snapshot().link
        assert (link["garbage"], link["malformed"]) == (4, 2)


@pytest_twisted.ensureDeferred
async def test_an_endless_line_ends_the_process() -> None:
    """T-MC-7: at 1 GiB without a newline, of an answer, the process is ended; memory does not grow meanwhile."""
    async with hosted(hostile("endless-answer")) as server:
        snapshot = server.snapshot()
        before = psutil.Process().memory_info().rss
        with pytest.raises(AnswerTooLong):
            await call(server, "work", 60.0)
        # Somebody waits for another answer: the line goes on at full speed, and ends no later than its bound.
        failure = await failure_of(call(server, "work", 120.0))
        assert isinstance(failure, UpstreamLost)
        assert "without a newline" in str(failure)
        assert psutil.Process().memory_info().rss - before < 96 << 20
        await until(lambda: not alive(snapshot.pid or 0))


@pytest_twisted.ensureDeferred
async def test_endless_garbage_is_read_at_its_share_and_harms_no_other_call() -> None:
    """T-MC-7: a line that is no answer, without a newline, is skipped as slowly as any garbage; its call times out."""
    async with hosted(hostile("endless-line")) as server:
        before = psutil.Process().memory_info().rss
        assert isinstance(await failure_of(call(server, "work", 8.0)), UpstreamTimeout)
        link = server.snapshot().link
        assert link["too_long"] == 1
        assert link["pauses"] >= 1  # type: ignore[operator]
        assert psutil.Process().memory_info().rss - before < 96 << 20


@pytest.mark.parametrize("how", ["id-first", "id-last", "id-nowhere"])
@pytest_twisted.ensureDeferred
async def test_an_answer_that_is_too_long_ends_its_own_call(how: str) -> None:
    """The call of a line of 17 MiB fails wherever its id stands; the server is up, in the same process, and answers."""
    async with hosted(hostile("long-answers")) as server:
        pid = server.snapshot().pid
        for _ in range(2):
            with pytest.raises(AnswerTooLong):
                await call(server, "work", 20.0, how=how)
            assert (await call(server, "work", 20.0, how="short"))["content"][0]["text"] == "done"
        found = server.snapshot()
        assert (found.pid, found.restarts, found.link["too_long"]) == (pid, 0, 2)


@pytest_twisted.ensureDeferred
async def test_a_long_request_of_the_server_ends_no_call() -> None:
    """A server's own request has an id too, of its own counting: too long, it is skipped, and the call is answered."""
    async with hosted(hostile("long-answers")) as server:
        assert (await call(server, "work", 20.0, how="request"))["content"][0]["text"] == "done"
        assert server.snapshot().link["too_long"] == 1


@pytest_twisted.ensureDeferred
async def test_wrong_and_repeated_ids_are_ignored() -> None:
    """T-MC-8: nine wrong ids before the answer, and one repetition after it, change nothing."""
    async with hosted(hostile("wrong-ids")) as server:
        assert "wrong" not in await call(server)
        link = server.snapshot().link
        assert (link["unknown"], link["late"]) == (9, 0)
    async with hosted(hostile("duplicate")) as server:
        assert "again" not in await call(server)
        await until(lambda: server.snapshot().link["late"] == 1)


@pytest.mark.parametrize("fault", ["unreadable-answer", "deep-answer", "non-object"])
@pytest_twisted.ensureDeferred
async def test_an_answer_that_is_no_result_fails_its_call_now(fault: str) -> None:
    """
    T-MC-9: NaN, depth and wrong types are refused at once, not at the deadline, and the server stays up.
    """
    async with hosted(hostile(fault)) as server:
        began = time.monotonic()
        assert isinstance(await failure_of(call(server, within=60)), UnreadableAnswer)
        assert time.monotonic() - began < 30
        assert server.state is UpstreamState.UP


@pytest_twisted.ensureDeferred
async def test_requests_of_a_server_are_answered() -> None:
    """
    T-MC-10: ping is answered. A process that callers share has nobody to ask, and is told that there are no roots.
    """
    async with hosted(hostile("requests")) as server:
        ping, sampling, roots, elicitation = (await call(server))["seen"]
        assert ping == {"jsonrpc": "2.0", "id": "s0", "result": {}}
        assert [answer["error"]["code"] for answer in (sampling, elicitation)] == [-32601] * 2
        assert roots["result"] == {"roots": []}
    async with hosted(hostile("requests"), isolation="shared") as server:
        _, *others = (await call(server))["seen"]
        assert [answer["error"]["code"] for answer in others] == [-32601] * 3, "no such capability is offered"


@pytest_twisted.ensureDeferred
async def test_many_notifications_do_not_delay_the_answer() -> None:
    """T-MC-11: four thousand notifications before the answer; the log takes few of them."""
    async with hosted(hostile("notifications")) as server:
        assert (await call(server))["content"][0]["text"] == "done"
        assert server.snapshot().link["notifications"] == 4000


@measured
@pytest.mark.parametrize("fault", ["flood", "stderr-flood"])
@pytest_twisted.ensureDeferred
async def test_a_flood_is_throttled_and_harms_nobody_else(fault: str) -> None:
    """
    T-MC-12: endless notifications or stderr: the server is paused, and another one answers promptly
    meanwhile.
    """
    async with hosted(hostile(fault)) as server, hosted(hostile(), name="other") as other:
        flooding = call(server, within=1.5)
        flooding.addErrback(lambda failure: None)
        await pause(0.3)
        took = []
        for _ in range(20):
            began = time.monotonic()
            await call(other)
            took.append(time.monotonic() - began)
            await pause(0.01)
        # What the flood held up would be held up each time; a machine that does something else is so now and then.
        assert sorted(took)[len(took) // 2] < 0.5, took
        await until(lambda: server.snapshot().link["pauses"])
        await flooding


@pytest_twisted.ensureDeferred
async def test_stderr_is_drained_bounded_and_clean() -> None:
    """T-MC-13: escapes are shown, not interpreted; a configured secret is redacted; long lines are cut."""
    async with hosted(hostile("stderr"), env={"TOKEN": "secret-canary-value"}) as server:
        await call(server)
        lines = await until(lambda: len(server.snapshot().link["stderr"]) >= 3 and server.snapshot().link["stderr"])
        assert lines[0] == "\\x1b[31mred\\x1b[0m \\u202e [redacted]"
        assert lines[1].endswith("z [cut]")
        assert lines[2] == "last"


@pytest_twisted.ensureDeferred
async def test_a_hanging_call_ends_at_its_deadline() -> None:
    """T-MC-14: at its own deadline, which is not the server's."""
    async with hosted(hostile("hang")) as server:
        began = time.monotonic()
        assert isinstance(await failure_of(call(server, within=0.3)), UpstreamTimeout)
        assert 0.29 < time.monotonic() - began < 10


@pytest_twisted.ensureDeferred
async def test_a_late_answer_is_dropped_and_counted() -> None:
    """T-MC-15: the answer to a call that timed out reaches nobody."""
    async with hosted(hostile("late", 0.4)) as server:
        assert isinstance(await failure_of(call(server, within=0.1)), UpstreamTimeout)
        assert (await call(server))["content"][0]["text"] == "done"
        assert server.snapshot().link["late"] == 1


@pytest_twisted.ensureDeferred
async def test_a_server_that_does_not_read_is_bounded() -> None:
    """
    T-MC-16: what it does not read is queued to a limit, then refused; every queued call still ends in
    time.
    """
    async with hosted(hostile("none"), max_concurrency=40) as server:
        launcher = server.snapshot().pid
        child = psutil.Process(launcher).children()[0].pid
        os.kill(child, signal.SIGSTOP)
        calls = [call(server, "work", 1.0, text="x" * 900_000) for _ in range(30)]
        results = await DeferredList(calls, consumeErrors=True)
        kinds = [type(failure.value) for ok, failure in results if not ok]
        assert len(kinds) == 30
        assert kinds.count(UpstreamBusy) >= 10
        assert kinds.count(UpstreamTimeout) >= 5


@pytest.mark.parametrize("octets", [10, 200_000])
@pytest_twisted.ensureDeferred
async def test_a_server_that_stops_reading_is_ended_and_started_anew(octets: int) -> None:
    """Within input_timeout, whether the pipe is full or not; a new process answers."""
    async with hosted(hostile("none"), input_timeout=1.0) as server:
        launcher = server.snapshot().pid
        child = psutil.Process(launcher).children()[0].pid
        os.kill(child, signal.SIGSTOP)
        await until(lambda: psutil.Process(child).status() == psutil.STATUS_STOPPED)
        failures = [await failure_of(call(server, "work", 30.0, text="x" * octets))]
        assert [type(failure) for failure in failures] == [NotReading]
        await until(lambda: not alive(child))
        await until(lambda: server.state is UpstreamState.UP)
        assert (await call(server))["content"][0]["text"] == "done"


@pytest_twisted.ensureDeferred
async def test_a_server_that_reads_slowly_is_left_alone() -> None:
    """The control: one that reads a little again and again is not ended, however long its queue is."""
    async with hosted(hostile("slow-reader"), input_timeout=2.0) as server:
        pid = server.snapshot().pid
        outcome = await call(server, "work", 60.0, text="x" * 900_000)
        assert outcome["content"][0]["text"] == "done"
        assert server.snapshot().pid == pid


@pytest.mark.parametrize(("code", "kind"), [(-32602, ErrorAnswer), (-32000, ErrorAnswer)])
@pytest_twisted.ensureDeferred
async def test_errors_are_kept_whole(code: int, kind: type[UpstreamFailure]) -> None:
    """T-MC-17: code, message and data come out as sent."""
    async with hosted(hostile("rpc-error", code)) as server:
        failure = await failure_of(call(server))
        assert isinstance(failure, kind)
        assert failure.error == {"code": code, "message": "no", "data": {"kept": 1}}  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", ["poisoned-name", "poisoned-text", "poisoned-schema", "twins", "odd-tools"])
@pytest_twisted.ensureDeferred
async def test_poisoned_tools_are_refused(fault: str) -> None:
    """T-MC-90..105: the bad one is off, the good one beside it works."""
    async with hosted(hostile(fault)) as server:
        assert list(server.catalogue.bindings) == ["work"]


@pytest_twisted.ensureDeferred
async def test_a_rug_pull_turns_the_tool_off(tmp_path: Path) -> None:
    """T-MC-95: a definition that changes while the server runs is off within seconds."""
    async with hosted(hostile("rug-pull", tmp_path / "pulled")) as server:
        await call(server)
        await until(lambda: server.catalogue.changed_tools == {"work"})
        failure = await failure_of(call(server))
        assert isinstance(failure, ErrorAnswer)


@pytest_twisted.ensureDeferred
async def test_every_page_is_walked() -> None:
    """Five pages make five tools."""
    async with hosted(hostile("pages")) as server:
        assert list(server.catalogue.bindings) == [f"work{page}" for page in range(5)]


@pytest.mark.parametrize("fault", ["exit-at-once", "endless-pages", "list-nonsense", "old-version"])
@pytest_twisted.ensureDeferred
async def test_a_server_that_cannot_start_is_retried(fault: str) -> None:
    """T-MC-20: it goes to back-off with a reason, and calls are refused meanwhile."""
    async with hosted(hostile(fault), wait=False) as server:
        await until(lambda: server.state is UpstreamState.BACKOFF)
        seen = server.snapshot()
        assert seen.reason
        assert seen.next_attempt_in is not None
        if fault == "exit-at-once":
            assert "exit code 3" in seen.reason


@pytest_twisted.ensureDeferred
async def test_the_last_words_of_a_process_outlive_it() -> None:
    """An operator reads why a server ended where its state is shown, not in the host's log alone."""
    wrote = "import sys; sys.stderr.write('Traceback\\n' * 200 + 'no module named notes'); sys.exit(1)"
    async with hosted((sys.executable, "-c", wrote), wait=False) as server:
        await until(lambda: server.state is UpstreamState.BACKOFF)
        link = server.snapshot().to_full_json()["link"]
        assert isinstance(link, dict) and link["stderr"][-2:] == ["Traceback", "no module named notes"]


@pytest_twisted.ensureDeferred
async def test_a_program_that_does_not_exist() -> None:
    """The reason says so, on stderr and as exit code 127."""
    async with hosted(("/nonexistent/server",), wait=False) as server:
        await until(lambda: server.state is UpstreamState.BACKOFF)
        assert "127" in server.snapshot().reason
    async with hosted((sys.executable,), cwd="/nonexistent", wait=False) as server:
        await until(lambda: server.state is UpstreamState.BACKOFF)


@pytest_twisted.ensureDeferred
async def test_a_server_that_dies_of_the_probe_is_asked_differently() -> None:
    """Some old servers exit on a method they do not know: the next attempt begins with initialize."""
    async with hosted(hostile("dies-of-probe")) as server:
        assert server.snapshot().version == "2025-11-25"
        assert server.snapshot().restarts == 1


@pytest_twisted.ensureDeferred
async def test_a_server_that_never_answers_is_ended() -> None:
    """T-MC-21: start_timeout ends the attempt and the process."""
    async with hosted(hostile("mute"), wait=False, start_timeout=0.5) as server:
        pid = await until(lambda: server.snapshot().pid)
        await until(lambda: server.state is UpstreamState.BACKOFF)
        assert "did not start within 0.5 s" in server.snapshot().reason
        await until(lambda: not alive(pid))


@pytest_twisted.ensureDeferred
async def test_the_environment_is_built_from_empty(tmp_path: Path) -> None:
    """
    T-MC-80: six names and what is configured; no secret of the host, no descriptor but the three, its own
    directory.
    """
    environ = {
        "HOME": "/h",
        "PATH": "/usr/bin:/bin",
        "AWS_SECRET": "canary",
        "PYTHONPATH": "/x",
        "USER": "() { :; }",
    }
    async with hosted(hostile("environment"), environ=environ, env={"SEEN": "yes"}, cwd=str(tmp_path)) as server:
        result = await call(server)
        # The server is a Python program, which sets LC_CTYPE for itself where no locale is set.
        del result["env"]["LC_CTYPE"]
        assert result["env"] == {"HOME": "/h", "PATH": "/usr/bin:/bin", "SEEN": "yes"}
        kinds = {number: target.partition(":")[0] for number, target in result["fds"].items()}
        assert {number: kinds[number] for number in "012"} == dict.fromkeys("012", "pipe")
        assert all(target.startswith("/proc") for number, target in result["fds"].items() if number not in "012")
        assert result["cwd"] == str(tmp_path)
