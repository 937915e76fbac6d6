"""Handlers that leave the thread or wait for Twisted's reactor, in a host in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from zope.interface import implementer

from agtphost.errors import ConfigurationError
from agtphost.plugin import EndpointContext, EndpointError, IHandler
from agtphost.testing import MemoryHost, Unanswered

MakeHost = Callable[..., MemoryHost]


@implementer(IHandler)
class Waiting:
    """A handler plugin that does what its settings say."""

    kind = "waiting"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._how = settings["how"]

    async def handle(self, context: EndpointContext) -> Mapping[str, Any]:
        from twisted.internet import reactor

        main = get_ident()
        if self._how == "thread":
            return {"left": await deferToThread(get_ident) != main}
        if self._how == "reactor":
            return {"left": await deferLater(reactor, 0, lambda: False)}
        if self._how == "both":
            await deferToThread(get_ident)
            inner = await context.invoke("QUERY", "/inner", {})
            return {"left": await deferToThread(get_ident) != main, "inner": inner}
        if self._how == "error":
            await deferToThread(get_ident)
            raise EndpointError("lost", {})
        return {"left": await Deferred[bool]()}


def make(agtp_host: MakeHost, how: str) -> MemoryHost:
    handler = {"type": "plugin", "plugin": "waiting", "settings": {"how": how}}
    host = agtp_host(plugins={"waiting": Waiting})
    host.endpoint("QUERY", "/inner", lambda context: {"inner": 1})
    host.endpoint("QUERY", "/waiting", handler, errors=["lost"])
    return host


RESULTS = {
    "thread": {"left": True},
    "reactor": {"left": False},
    "both": {"left": True, "inner": {"inner": 1}},
}


@pytest.mark.parametrize("how", RESULTS)
@pytest_twisted.ensureDeferred
async def test_a_test_on_the_reactor_awaits_the_answer(agtp_host: MakeHost, how: str) -> None:
    """``call_on_reactor`` gives a Deferred; ``call(wait=...)`` there says what to write instead."""
    host = make(agtp_host, how)
    caller = host.agent("demo")
    assert (await host.call_on_reactor("QUERY", "/waiting", caller=caller)).result == RESULTS[how]
    with pytest.raises(RuntimeError, match="call_on_reactor"):
        host.call("QUERY", "/waiting", caller=caller, wait=30)


@pytest_twisted.ensureDeferred
async def test_an_error_after_waiting_is_an_answer(agtp_host: MakeHost) -> None:
    """What a handler raises once it waited is sealed as ever."""
    host = make(agtp_host, "error")
    answer = await host.call_on_reactor("QUERY", "/waiting", caller=host.agent("demo"))
    assert (answer.status, answer.reason, answer.record["status"]) == (422, "lost", 422)


@pytest_twisted.ensureDeferred
async def test_a_handler_that_never_ends_is_unanswered_on_the_reactor(agtp_host: MakeHost) -> None:
    """The Deferred fails in the same way."""
    host = make(agtp_host, "never")
    with pytest.raises(Unanswered, match=r"after 0\.05 seconds"):
        await host.call_on_reactor("QUERY", "/waiting", caller=host.agent("demo"), wait=0.05)


def test_blocking_handlers_of_plugins_run_in_turn(agtp_host: MakeHost) -> None:
    """``blocking = true`` and ``asyncio = true`` need no waiting: they run in the test's own turn."""

    @implementer(IHandler)
    class Blocking:
        kind = "blocking"

        def __init__(self, settings: Mapping[str, Any]) -> None:
            pass

        def handle(self, context: EndpointContext) -> Mapping[str, Any]:
            return {"inner": context.invoke("QUERY", "/inner", {})}

    @implementer(IHandler)
    class OnLoop:
        kind = "on-loop"

        def __init__(self, settings: Mapping[str, Any]) -> None:
            pass

        async def handle(self, context: EndpointContext) -> Mapping[str, Any]:
            import asyncio

            await asyncio.sleep(0)
            return {"inner": 2}

    host = agtp_host(plugins={"one": Blocking, "two": OnLoop})
    host.endpoint("QUERY", "/inner", lambda context: {"inner": 1})
    host.endpoint("QUERY", "/one", {"type": "plugin", "plugin": "one", "blocking": True})
    host.endpoint("QUERY", "/two", {"type": "plugin", "plugin": "two", "asyncio": True})
    demo = host.agent("demo")
    assert host.call("QUERY", "/one", caller=demo).result == {"inner": {"inner": 1}}
    assert host.call("QUERY", "/two", caller=demo).result == {"inner": 2}


ALONE = """
import pytest
from agtphost.testing import Unanswered
from tests.testing.test_waiting_handlers import RESULTS, make

@pytest.mark.parametrize("how", RESULTS)
def test_a_call_waits_for_threads_and_the_reactor(agtp_host, how):
    host = make(agtp_host, how)
    caller = host.agent("demo")
    for _ in range(3):
        assert host.call("QUERY", "/waiting", caller=caller, wait=30).result == RESULTS[how]
    with pytest.raises(Unanswered, match="wait=SECONDS"):
        host.call("QUERY", "/waiting", caller=caller)

def test_an_error_after_waiting_is_an_answer(agtp_host):
    host = make(agtp_host, "error")
    answer = host.call("QUERY", "/waiting", caller=host.agent("demo"), wait=30)
    assert (answer.status, answer.reason, answer.record["status"]) == (422, "lost", 422)

def test_a_handler_that_never_ends_is_unanswered(agtp_host):
    host = make(agtp_host, "never")
    with pytest.raises(Unanswered):
        host.call("QUERY", "/waiting", caller=host.agent("demo"), wait=0.05)
    assert host.call("QUERY", "/inner", caller=host.agent("demo")).status == 200
"""


def test_a_plain_test_waits_by_itself(tmp_path: Path) -> None:
    """
    ``call(wait=...)`` runs the reactor, again and again, in a session without pytest-twisted. Without it the call is
    not answered (the control), and the process ends: no thread of the reactor's is left.
    """
    (tmp_path / "test_alone.py").write_text(ALONE)
    root = Path(__file__).resolve().parents[2]
    options = ["-q", "-p", "no:cacheprovider", "-p", "agtphost.testing.plugin", "test_alone.py"]
    environ = {**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environ, timeout=120)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr


GATED = "The library is closed."


def test_gates_and_observers_of_plugins_are_given_to_the_host(agtp_host: MakeHost) -> None:
    """Every kind of plugin may be given by name; the gate refuses, and the observer sees it."""
    from agtphost.plugin import CallView, ForeignReason, IOperatorGate, IRecordObserver, ObservedRecord, Refusal, Status

    seen: list[str] = []

    @implementer(IOperatorGate)
    class Closed:
        name = "closed"

        def __init__(self, settings: Mapping[str, Any]) -> None:
            self._path = settings["path"]

        def check(self, call: CallView) -> None:
            if call.path == self._path:
                raise Refusal(ForeignReason("closed", Status.FORBIDDEN), GATED)

    @implementer(IRecordObserver)
    class Observer:
        def __init__(self, settings: Mapping[str, Any]) -> None:
            pass

        def saw(self, record: ObservedRecord) -> Awaitable[None] | None:
            seen.append(record.reason)
            return None

    settings = {"gate": [{"plugin": "closed", "settings": {"path": "/shelf"}}], "observer": [{"plugin": "sees"}]}
    host = agtp_host(settings, plugins={"closed": Closed, "sees": Observer})
    host.endpoint("QUERY", "/shelf", lambda context: {})
    host.endpoint("QUERY", "/room", lambda context: {})
    demo = host.agent("demo")
    refused = host.call("QUERY", "/shelf", caller=demo)
    assert (refused.status, refused.reason, refused.explanation) == (403, "closed", GATED)
    assert host.call("QUERY", "/room", caller=demo).status == 200
    assert "closed" in seen


def test_a_plugin_that_cannot_be_used_is_named(agtp_host: MakeHost) -> None:
    """What is wrong with a plugin or its settings is told, though no file has them."""

    @implementer(IHandler)
    class Narrow:
        kind = "narrow"
        settings_schema = {"properties": {"limit": {"type": "integer"}}, "additionalProperties": False}

        def __init__(self, settings: Mapping[str, Any]) -> None:
            pass

        def handle(self, context: EndpointContext) -> Mapping[str, Any]:
            return {}

    for settings, said in (({"limit": "7"}, "settings.limit is not of type integer"), ({"limits": 7}, "is unknown")):
        host = agtp_host(plugins={"narrow": Narrow})
        host.endpoint("QUERY", "/narrow", {"type": "plugin", "plugin": "narrow", "settings": settings})
        with pytest.raises(ConfigurationError, match=said):
            host.call("QUERY", "/narrow")
    for gate, said in (({"plugin": "absent"}, "no installed package"), ({"plugin": "narrow"}, "IOperatorGate")):
        host = agtp_host({"gate": [gate]}, plugins={"narrow": Narrow})
        with pytest.raises(ConfigurationError, match=said):
            host.call("QUERY", "/narrow")
