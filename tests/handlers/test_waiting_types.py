"""Functions that wait: Deferreds, awaitables, coroutines of Twisted and of asyncio, with type hints and without."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Coroutine, Generator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any, TypedDict

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.threads import blockingCallFromThread

from agtphost import EndpointContext, EndpointError, endpoint
from agtphost.contract.handler_hints import HintsError
from agtphost.errors import ConfigurationError, Refusal
from agtphost.handlers.asyncio_loop import AsyncioFunction, AsyncioLoop
from agtphost.handlers.endpoint import SIGNATURE, hints_of
from agtphost.handlers.function import UnresolvableFunction
from agtphost.handlers.function_check import advice_on, require_suitable
from agtphost.testing.host import MemoryHost


class Answer(TypedDict):
    text: str


class Waited:
    """An awaitable that is neither a coroutine nor a Deferred."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __await__(self) -> Generator[Any, Any, Answer]:
        yield from succeed(None).__await__()
        return {"text": self._text}


@endpoint
def deferred(text: str) -> Deferred[Answer]:
    return succeed({"text": text})


@endpoint
def awaitable(text: str) -> Awaitable[Answer]:
    return Waited(text)


@endpoint
def coroutine_of(text: str) -> Coroutine[Any, Any, Answer]:
    return coroutine.__wrapped__(text)  # type: ignore[attr-defined, no-any-return]


@endpoint
async def coroutine(text: str) -> Answer:
    await succeed(None)
    return {"text": text}


@endpoint
@inlineCallbacks
def generator(text: str) -> Generator[Deferred[Any], Any, Answer]:
    yield succeed(None)
    return {"text": text}


@endpoint
def either(text: str) -> Answer | Deferred[Answer]:
    return {"text": text} if text == "now" else succeed({"text": text})


@endpoint
async def with_asyncio(text: str) -> Answer:
    await asyncio.sleep(0)
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    return {"text": text}


@endpoint
def future_of(text: str) -> asyncio.Future[Answer]:
    return asyncio.ensure_future(with_asyncio.__wrapped__(text))  # type: ignore[attr-defined, no-any-return]


@endpoint
async def asks(ctx: EndpointContext, text: str) -> Answer:
    await asyncio.sleep(0)
    inner = await ctx.invoke("QUERY", "/coroutine", {"text": text})
    return {"text": str(inner["text"])}


@endpoint
async def refuses(text: str) -> Answer:
    """
    Refuses.

    :raises not_known: always
    """
    await asyncio.sleep(0)
    raise EndpointError("not_known")


@endpoint
def bare(text: str) -> Deferred:  # type: ignore[type-arg]
    return succeed({"text": text})


@endpoint
async def of_nothing() -> list[Answer]:
    return []


@endpoint
def of_none(text: str) -> Deferred[None]:
    return succeed(None)


@endpoint
def coroutine_of_none(text: str) -> Coroutine[Any, Any, None]:
    return coroutine.__wrapped__(text)  # type: ignore[attr-defined]


def plain_awaitable(ctx: EndpointContext) -> Any:
    return Waited(str(ctx.input["text"]))


@endpoint
def yields(text: str) -> Generator[Any, Any, Answer]:
    yield succeed(None)
    return {"text": text}


async def streams(ctx: EndpointContext) -> Any:
    yield {}


SCHEMAS = {
    "input_schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {"text": {"type": "string"}},
    },
    "output_schema": {"type": "object"},
    "errors": [],
}
MODULE = __name__
TWISTED = ("deferred", "awaitable", "coroutine_of", "coroutine", "generator", "either", "bare")
ASYNCIO = ("with_asyncio", "future_of", "asks")


def declared(name: str, **handler: Any) -> dict[str, Any]:
    return {
        "method": "QUERY",
        "path": f"/{name}",
        "description": "Answers with what it was sent.",
        "handler": {"type": "registered_function", "function": f"{MODULE}.{name}", **handler},
        "semantic": {
            "intent": "Answers with what it was sent.",
            "actor": "agent",
            "outcome": "The text.",
            "capability": "retrieval",
            "confidence": 0.9,
            "impact": "informational",
            "is_idempotent": True,
        },
    }


def test_what_is_waited_for_is_the_output() -> None:
    """Each annotation tells the same schema; one without a type tells none."""
    expected = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": True,
    }
    for name in (*TWISTED, *ASYNCIO):
        hints = hints_of(f"{MODULE}.{name}", lambda dotted: globals()[dotted.rpartition(".")[2]])
        assert hints is not None
        assert hints.output_schema == (None if name == "bare" else expected), name


def test_each_kind_answers() -> None:
    """In a host, through the dispatcher; those of asyncio where they are declared so."""
    endpoints = [
        *({**declared(name), **(SCHEMAS if name == "bare" else {})} for name in TWISTED),
        *(declared(name, asyncio=True) for name in (*ASYNCIO, "refuses")),
        {**declared("plain_awaitable"), **SCHEMAS},
    ]
    host = MemoryHost(endpoints=endpoints)
    demo = host.agent("demo")
    for name in (*TWISTED, *ASYNCIO, "plain_awaitable"):
        answer = host.call("QUERY", f"/{name}", {"text": "now"}, caller=demo)
        assert (answer.status, answer.result) == (200, {"text": "now"}), (name, answer.body)
    assert host.call("QUERY", "/either", {"text": "later"}, caller=demo).result == {"text": "later"}
    refused = host.call("QUERY", "/refuses", {"text": "x"}, caller=demo)
    assert (refused.status, refused.document["error"]["code"]) == (422, "not_known")


@pytest.mark.parametrize(
    ("name", "handler", "cure"),
    [
        ("with_asyncio", {}, "write asyncio = true below [handler]"),
        ("coroutine", {"blocking": True}, "asyncio = true in place of blocking = true"),
        ("yields", {}, "inlineCallbacks"),
        ("streams", {}, "context.emit"),
        ("with_asyncio", {"asyncio": True, "blocking": True}, "only asyncio for an asyncio coroutine"),
        ("with_asyncio", {"asyncio": "yes"}, "on an event loop of asyncio"),
        ("of_nothing", {}, "TypedDict"),
        ("of_none", {}, "it returns None"),
        ("coroutine_of_none", {}, "it returns None"),
        ("with_asyncio", {}, "uses asyncio, whose event loop"),
    ],
)
def test_what_could_answer_nothing_is_refused_with_its_cure(name: str, handler: dict[str, Any], cure: str) -> None:
    """Before a start, as ``agtp check`` does, and with what to write."""
    with pytest.raises(ConfigurationError) as wrong:
        MemoryHost(endpoints=[{**declared(name, **handler), **(SCHEMAS if name == "streams" else {})}]).core
    assert cure in str(wrong.value), str(wrong.value)


INSIDE = """
from twisted.internet.threads import deferToThread

async def whole(ctx):
    import asyncio
    await asyncio.sleep(0)

async def one(ctx):
    from asyncio import sleep
    await sleep(0)

async def helped(ctx):
    await one(ctx)

async def in_a_thread(ctx):
    def work():
        import asyncio
        asyncio.run(asyncio.sleep(0))
    await deferToThread(work)
"""


def test_an_import_inside_a_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a start; a loop that a thread runs for itself needs none of the host's."""
    (tmp_path / "importing_inside.py").write_text(INSIDE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("importing_inside")
    for name in ("whole", "one", "helped"):
        with pytest.raises(UnresolvableFunction, match="uses asyncio") as wrong:
            require_suitable(getattr(module, name), blocking=False, on_loop=False)
        assert wrong.value.hint == "write asyncio = true below [handler]"
        require_suitable(getattr(module, name), blocking=False, on_loop=True)
    require_suitable(module.in_a_thread, blocking=False, on_loop=False)


def test_the_page_s_sample_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``docs/endpoints.rst``: each function of the sample, declared as the page says."""
    page = (Path(__file__).parents[2] / "docs" / "endpoints.rst").read_text(encoding="utf-8")
    block = page.partition(".. code-block:: python\n\n    # handlers/waiting.py\n")[2]
    source = "".join(takewhile(lambda line: line[:4].isspace() or line == "\n", block.splitlines(keepends=True)))
    (tmp_path / "waiting_sample.py").write_text(dedent(source), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("waiting_sample")
    names = [name for name, value in vars(module).items() if hasattr(value, SIGNATURE)]
    assert names == ["deferred", "awaitable", "coroutine", "generator", "with_asyncio"]
    endpoints = [declared(name, **({"asyncio": True} if name == "with_asyncio" else {})) for name in names]
    for each in endpoints:
        each["handler"]["function"] = each["handler"]["function"].replace(MODULE, "waiting_sample")
    host = MemoryHost(endpoints=endpoints)
    # The page's Deferred is of the running host's reactor; here that is the one in memory.
    monkeypatch.setattr(module, "reactor", host.clock)
    demo = host.agent("demo")
    for name in names:
        waiting = host.begin("QUERY", f"/{name}", {"text": "x"}, caller=demo)
        host.advance(1)
        answers: list[Any] = []
        waiting.addCallback(answers.append)
        assert answers and answers[0].result == {"text": "x"}, name


def test_a_type_that_is_missing_when_hints_are_read_says_so() -> None:
    """The usual import below TYPE_CHECKING is named as the reason."""
    with pytest.raises(HintsError) as wrong:
        hints_of("a.b", lambda dotted: hidden)
    assert "if TYPE_CHECKING" in wrong.value.hint


@endpoint
def hidden(text: str) -> Missing:  # type: ignore[name-defined]  # noqa: F821
    return {}


def reactor() -> Any:
    """The running reactor."""
    from twisted.internet import reactor as running

    return running


@pytest_twisted.ensureDeferred
async def test_a_loop_runs_beside_the_reactor() -> None:
    """Coroutines overlap in one thread beside the reactor's; cancelling one ends its task, and too many are refused."""
    loop = AsyncioLoop(reactor(), most=2)
    met, began, ended = asyncio.Event(), threading.Event(), threading.Event()
    context = EndpointContext(input={}, method="QUERY", path="/slow")

    async def first(ctx: EndpointContext) -> Any:
        await met.wait()
        return {"thread": threading.current_thread().name}

    async def second(ctx: EndpointContext) -> Any:
        met.set()
        return {}

    async def endless(ctx: EndpointContext) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = AsyncioFunction(first, loop, reactor()).handle(context)
    assert await AsyncioFunction(second, loop, reactor()).handle(context) == {}
    assert await waiting == {"thread": "agtphost-asyncio"}
    cancelled = AsyncioFunction(endless, loop, reactor()).handle(context)
    other = AsyncioFunction(endless, loop, reactor()).handle(context)
    with pytest.raises(Refusal) as busy:
        AsyncioFunction(second, loop, reactor()).handle(context)
    assert busy.value.status == 503
    assert began.wait(60)
    cancelled.cancel()
    with pytest.raises(CancelledError):
        await cancelled
    assert ended.wait(60)
    loop.stop()
    with pytest.raises(CancelledError):
        await other
    assert loop.running == 0


@pytest_twisted.ensureDeferred
async def test_a_deferred_is_awaited_on_the_loop_as_advised() -> None:
    """A coroutine of asyncio that awaits a Deferred fails with the advice how to; as advised it has the answer."""
    loop = AsyncioLoop(reactor())
    context = EndpointContext(input={}, method="QUERY", path="/both")
    where: list[str] = []

    def later() -> Deferred[str]:
        where.append(threading.current_thread().name)
        waited: Deferred[str] = Deferred()
        reactor().callLater(0, waited.callback, "text")
        return waited

    async def wrong(ctx: EndpointContext) -> Any:
        return await Deferred()

    async def right(ctx: EndpointContext) -> Any:
        return await asyncio.to_thread(blockingCallFromThread, reactor(), later)

    with pytest.raises(RuntimeError) as failed:
        await AsyncioFunction(wrong, loop, reactor()).handle(context)
    assert "await asyncio.to_thread(blockingCallFromThread, reactor, FUNCTION)" in advice_on(failed.value)
    assert await AsyncioFunction(right, loop, reactor()).handle(context) == "text"
    assert where == [threading.main_thread().name]
    loop.stop()
