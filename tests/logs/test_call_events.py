"""Every line of the log that belongs to a call says to which, also those from before its record was made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import Logger, LogLevel, LogPublisher, formatEvent, globalLogPublisher
from twisted.python.threadable import registerAsIOThread

from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.log_context import CALL, Call
from agtphost.identity.peer import Peer
from agtphost.logs.call_events import LONGEST_WAIT, MOST_WAITING, CallEvents
from agtphost.protocols.coroutines import drive
from agtphost.wire.events import Response
from tests.dispatch.hosts import CALLER, DispatchHost, certificate

operator_log = Logger(namespace="handlers.rooms")
GOOD = {"text": "x"}
TASK = "task-9"


class Ear:
    """Hears what the observers of a host's log hear."""

    def __init__(self) -> None:
        registerAsIOThread()
        self.clock = Clock()
        self.texts: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.stage = CallEvents(self._hear, self.clock)

    def _hear(self, event: Any) -> None:
        self.texts.append(formatEvent(event))
        self.events.append(event)

    def about(self, words: str) -> list[str]:
        return [text for text in self.texts if words in text]


@pytest.fixture
def ear() -> Iterator[Ear]:
    """In place of the usual observers."""
    heard = Ear()
    globalLogPublisher.addObserver(heard.stage)
    yield heard
    globalLogPublisher.removeObserver(heard.stage)
    assert CALL.get() is None, "a call that ended is still named"


def identifiers_of(host: DispatchHost, waiting: Deferred[Response]) -> dict[str, str]:
    found: list[Response] = []
    waiting.addCallback(found.append)
    [response] = found
    return {name: response.headers.get(name) or "" for name in ("audit-id", "response-id")}


def line_end(ids: dict[str, str]) -> str:
    """What its lines end with: who called what, and by which names it is found."""
    told = f"Audit-ID {ids['audit-id']}, Response-ID {ids['response-id']}, Agent-ID {CALLER}, Task-ID {TASK}"
    return f"[caller called RESERVE /desk, {told}]"


def failing(context: EndpointContext) -> Any:
    operator_log.info("about to fail")
    raise ValueError("no such room")


def test_a_traceback_is_found_by_its_audit_id(ear: Ear) -> None:
    """What the 500 promises: the failure, and all else that was logged of the call, under the answer's Audit-ID."""
    host = DispatchHost(failing)
    ids = identifiers_of(host, host.start(body=GOOD, headers={"Task-ID": TASK}))
    [mine], [failure] = ear.about("about to fail"), ear.about("the handler of RESERVE /desk failed")
    assert mine.endswith(line_end(ids)) and failure.endswith(line_end(ids))
    [event] = [event for event in ear.events if "log_failure" in event]
    assert (event["audit_id"], event["response_id"], event["task_id"]) == (ids["audit-id"], ids["response-id"], TASK)


def test_a_coroutine_and_what_it_awaits(ear: Ear) -> None:
    """Before its first wait and after; another call in between is told apart, and lines outside any say nothing."""
    waits: list[Deferred[None]] = []

    async def slow(context: EndpointContext) -> Any:
        operator_log.info("began {text}", text=context.input["text"])
        waits.append(Deferred())
        await waits[-1]
        operator_log.info("ended {text}", text=context.input["text"])
        return {}

    host = DispatchHost(slow)
    first = host.start(body={"text": "one"}, headers={"Task-ID": TASK})
    second = host.start(body={"text": "two"}, headers={"Task-ID": TASK})
    operator_log.info("nobody's")
    waits[1].callback(None)
    waits[0].callback(None)
    for waiting, text in ((first, "one"), (second, "two")):
        ids = identifiers_of(host, waiting)
        assert [
            line.endswith(line_end(ids)) for line in (*ear.about(f"began {text}"), *ear.about(f"ended {text}"))
        ] == [
            True,
            True,
        ]
    assert ear.about("nobody's") == ["nobody's"]


def test_the_driver_keeps_calls_apart(ear: Ear) -> None:
    """The connection's way to run an answer: a call that waits names nothing that runs meanwhile."""
    waits: Deferred[None] = Deferred()
    answers: list[Response] = []

    async def slow(context: EndpointContext) -> Any:
        await waits
        operator_log.info("late")
        return {}

    host = DispatchHost(slow)
    request = host.request("RESERVE", "/desk", GOOD, {"Task-ID": TASK})

    async def answer() -> None:
        peer = Peer(address="127.0.0.1", certificate=certificate())
        answers.append(await host.dispatcher.dispatch(request, peer))

    drive(answer())
    assert CALL.get() is None
    waits.callback(None)
    assert CALL.get() is None
    [late] = ear.about("late")
    assert str(answers[0].headers.get("audit-id")) in late


def test_a_call_inside_a_call_has_its_own(ear: Ear) -> None:
    """The inner call's lines are the inner record's, the outer one's before and after it the outer's."""

    async def outer(context: EndpointContext) -> Any:
        if context.path == "/words":
            operator_log.info("inside")
            return {}
        operator_log.info("before")
        await context.invoke("QUERY", "/words", {})
        operator_log.info("after")
        return {}

    host = DispatchHost(outer)
    ids = identifiers_of(host, host.start(body=GOOD, headers={"Task-ID": TASK}))
    assert [line.endswith(line_end(ids)) for line in ear.about("before") + ear.about("after")] == [True, True]
    [inside] = ear.about("inside")
    assert "Audit-ID" in inside and ids["audit-id"] not in inside


def test_a_long_call_is_heard_in_time(ear: Ear) -> None:
    """After a second its lines are written with the Response-ID; one line then has both, and nothing is lost."""
    waits: Deferred[None] = Deferred()

    async def slow(context: EndpointContext) -> Any:
        operator_log.info("began")
        await waits
        operator_log.info("went on")
        return {}

    host = DispatchHost(slow)
    waiting = host.start(body=GOOD, headers={"Task-ID": TASK})
    assert ear.about("began") == []
    ear.clock.advance(LONGEST_WAIT)
    [began] = ear.about("began")
    assert "Audit-ID" not in began
    waits.callback(None)
    ids = identifiers_of(host, waiting)
    [made] = ear.about("the record of a call is made")
    assert ids["response-id"] in began and made.endswith(line_end(ids))
    [went_on] = ear.about("went on")
    assert ids["response-id"] in went_on


def test_a_call_that_says_much_is_not_kept(ear: Ear) -> None:
    """No more than so many lines wait."""

    def talking(context: EndpointContext) -> Any:
        for number in range(3 * MOST_WAITING):
            operator_log.info("number {number}", number=number)
        assert len(ear.about("number")) == 3 * MOST_WAITING
        return {}

    host = DispatchHost(talking)
    identifiers_of(host, host.start(body=GOOD))
    assert len(ear.about("number")) == 3 * MOST_WAITING


def test_from_a_thread(ear: Ear) -> None:
    """A line from a thread is written at once, with the Response-ID."""
    call = Call()
    call.response_id = "r-1"

    def inside() -> None:
        CALL.set(call)
        operator_log.info("from a thread")

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert ear.about("from a thread") == ["from a thread [Response-ID r-1]"]
    assert call.held is None and call.early


def test_values_are_no_formats(ear: Ear) -> None:
    """A Task-ID with braces is text, as is what twisted's older loggers say."""
    call = Call()
    call.audit_id, call.task_id = "a" * 64, "{log_level.__class__}"
    token = CALL.set(call)
    try:
        operator_log.emit(LogLevel.info, "plain {word}", word="{x}")
        ear.stage({"message": ("old",), "log_format": "{log_text}", "log_text": "old", "isError": 0})
    finally:
        CALL.reset(token)
    ended = f"[Audit-ID {'a' * 64}, Task-ID {{log_level.__class__}}]"
    assert ear.texts == [f"plain {{x}} {ended}", f"old {ended}"]
    assert ear.events[1]["message"] == ("old", ended)


def test_the_author_of_an_undeclared_error_is_told(ear: Ear) -> None:
    """The caller gets 500; the log says which error, of which endpoint, and how it is declared."""

    def raising(context: EndpointContext) -> Any:
        raise EndpointError("desk_broken")

    host = DispatchHost(raising)
    ids = identifiers_of(host, host.start(body=GOOD, headers={"Task-ID": TASK}))
    [line] = ear.about("desk_broken")
    for part in ("RESERVE /desk", "EndpointError('desk_broken')", "to errors of the endpoint", "declared: desk_taken"):
        assert part in line
    assert ids["audit-id"] in line


def test_without_the_stage_nothing_is_marked() -> None:
    """The control: what the tests above hear comes of the stage, and of nothing else."""
    heard: list[str] = []
    publisher = LogPublisher(lambda event: heard.append(formatEvent(event)))
    token = CALL.set(Call())
    try:
        Logger(namespace="x", observer=publisher).info("plain")
    finally:
        CALL.reset(token)
    assert heard == ["plain"]
