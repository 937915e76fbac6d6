"""What authors write besides plain functions: it answers, or a start refuses it with what to write."""

from __future__ import annotations

import asyncio
import datetime
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, NamedTuple, NewType

import anyio
import anyio.lowlevel
import pytest
import typing_extensions
from pydantic import BaseModel
from twisted.internet.defer import Deferred, ensureDeferred, inlineCallbacks, succeed

from agtphost import EndpointContext, EndpointError, EndpointResponse, endpoint
from agtphost.errors import ConfigurationError
from agtphost.handlers.function_check import advice_on
from agtphost.testing.host import MemoryHost
from tests.handlers import author_helpers

Words = NewType("Words", str)


class Answer(typing_extensions.TypedDict):
    """Of typing_extensions, which pydantic asks for before Python 3.12."""

    text: str


class Pair(NamedTuple):
    text: str


class Unfinished(BaseModel):
    text: str
    more: Missing  # type: ignore[name-defined]  # noqa: F821


def joined(ending: str, text: Words) -> Answer:
    """Answers with a text."""
    return {"text": text + ending}


class Shelf:
    def find(self, text: str) -> Answer:
        """Answers with a text."""
        return {"text": text}

    @endpoint
    def declared(self, text: str) -> Answer:
        """Answers with a text."""
        return {"text": text}

    def plain(self, context: EndpointContext) -> dict[str, Any]:
        return {"text": context.input["text"]}

    async def __call__(self, context: EndpointContext) -> dict[str, Any]:
        return {"text": context.input["text"]}


class Waiting(Shelf):
    async def __call__(self, context: EndpointContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {}


bound = endpoint(functools.partial(joined, ""))
fixed = endpoint(functools.partial(joined, ending=""))
method = endpoint(Shelf().find)
plain_method = Shelf().plain
an_object = Shelf()
plain_partial = functools.partial(Shelf.plain, Shelf())
declared_method = Shelf().declared
unbound = Shelf.plain
waiting_object = Waiting()


async def _awaits(context: EndpointContext, seconds: float) -> dict[str, Any]:
    await asyncio.sleep(seconds)
    return {}


async def _helper() -> None:
    await asyncio.sleep(0)


awaiting_partial = functools.partial(_awaits, seconds=0)


@endpoint
async def maybe(text: str, context: EndpointContext | None = None) -> Answer | EndpointResponse | EndpointError:
    """Answers with a text."""
    return EndpointResponse(result={"text": text if context is not None else ""})


@endpoint
async def by_helper(text: str) -> Answer:
    """Waits in another function."""
    await _helper()
    return {"text": text}


@endpoint
async def by_module(text: str) -> Answer:
    """Waits in a function of another module."""
    await author_helpers.wait_on_loop()
    return {"text": text}


@endpoint
async def by_anyio(text: str) -> Answer:
    """Waits with a library that needs the loop."""
    await anyio.lowlevel.checkpoint()
    return {"text": text}


@endpoint
async def by_twisted_module(text: str) -> Answer:
    """Waits for a Deferred in a function of another module."""
    await author_helpers.wait_in_reactor()
    return {"text": text}


@endpoint
def deferred(text: str) -> Deferred[Answer]:
    """Answers later."""
    return succeed({"text": text})


@endpoint
def awaitable(text: str) -> Awaitable[Answer]:
    """Answers later."""
    return succeed({"text": text})


@endpoint
def task(text: str) -> asyncio.Task[Answer]:
    """Answers later."""
    raise NotImplementedError


@inlineCallbacks
@endpoint
def outside(text: str) -> Generator[Deferred[Any], Any, Answer]:
    """Has its decorators the wrong way round."""
    yield succeed(None)
    return {"text": text}


@endpoint
def stream(text: str) -> AsyncIterator[Answer]:
    """Returns a generator."""
    raise NotImplementedError


@endpoint
def nothing(text: str) -> None:
    """Returns nothing."""


@endpoint
def dated(when: datetime.date) -> Answer:
    """Takes a date."""
    raise NotImplementedError


@endpoint
def pair(text: str) -> Pair:
    """Returns a tuple."""
    raise NotImplementedError


@endpoint
def unfinished(text: str) -> Unfinished:
    """Returns a model that names what there is not."""
    raise NotImplementedError


twice = functools.partial(deferred, text="x")


@endpoint
class Declared:
    """A class."""


def undeclared(text: str) -> dict[str, Any]:
    return {"text": text}


def without() -> dict[str, Any]:
    return {}


def two(context: EndpointContext, other: str) -> dict[str, Any]:
    return {}


SCHEMAS = {
    "input_schema": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"text": {"type": "string"}},
    },
    "output_schema": {"type": "object"},
    "description": "Answers with a text.",
}
SEMANTIC = {
    "intent": "Answers with a text.",
    "actor": "agent",
    "outcome": "The text.",
    "capability": "retrieval",
    "confidence": 0.9,
    "impact": "informational",
    "is_idempotent": True,
}


def host_of(name: str, more: dict[str, Any], **handler: Any) -> MemoryHost:
    reference = {"type": "registered_function", "function": f"{__name__}.{name}", **handler}
    declared = {"method": "QUERY", "path": "/asked", "errors": [], "handler": reference, "semantic": SEMANTIC, **more}
    return MemoryHost(endpoints=[declared])


@pytest.mark.parametrize(
    "name",
    ["bound", "fixed", "method", "maybe", "plain_method", "an_object", "plain_partial", "by_twisted_module"],
)
def test_each_form_answers(name: str) -> None:
    """Partials, methods, objects, types under other names: with the schema that their hints say."""
    plain = name.startswith(("plain", "an_"))
    host = host_of(name, SCHEMAS if plain else {})
    answer = host.call("QUERY", "/asked", {"text": "now"}, caller=host.agent("demo"))
    assert (answer.status, answer.result) == (200, {"text": "now"}), answer.body
    if not plain:
        (found,) = [each for each in host.core.services.loaded.endpoints if each.path == "/asked"]
        assert found.input_schema.schema["required"] == ["text"]
        assert set(found.input_schema.schema["properties"]) == {"text"}, "what a partial fixes is not for callers"


@pytest.mark.parametrize(
    ("name", "handler", "cure"),
    [
        ("awaiting_partial", {}, "write asyncio = true below [handler]"),
        ("waiting_object", {}, "write asyncio = true below [handler]"),
        ("waiting_object", {"blocking": True}, "write `def` in place of `async def`"),
        ("by_helper", {}, "write asyncio = true below [handler]"),
        ("by_module", {}, "write asyncio = true below [handler]"),
        ("by_anyio", {}, "uses anyio, whose event loop does not run"),
        ("task", {}, "write asyncio = true below [handler]"),
        ("deferred", {"asyncio": True}, "leave out asyncio = true"),
        ("deferred", {"blocking": True}, "leave out blocking = true"),
        ("awaitable", {"blocking": True}, "leave out blocking = true"),
        ("outside", {}, "inlineCallbacks, below @endpoint"),
        ("stream", {}, "await context.emit"),
        ("nothing", {}, "return a dictionary"),
        ("dated", {}, "the parameter when: date cannot be expressed as a JSON Schema (write str and convert"),
        ("pair", {}, "what it returns: Pair cannot be expressed as a JSON Schema (write str, int"),
        ("unfinished", {}, "`Unfinished` is not fully defined; you should define `Missing`"),
        ("declared_method", {}, "NAME = endpoint(INSTANCE.declared)"),
        ("twice", {}, "write endpoint(functools.partial(...))"),
        ("Declared", {}, "write a function that returns one"),
        ("unbound", {}, "missing a required argument: 'context' (give it one parameter"),
        ("undeclared", {}, "write @endpoint above it"),
        ("without", {}, "give it one parameter"),
        ("two", {}, "missing a required argument: 'other' (give it one parameter"),
        ("Shelf", {}, "write a function that answers"),
        ("Shelf.plain", {}, f'write `plain = Shelf().plain` in the module, and function = "{__name__}.plain"'),
        ("an_object.plain", {}, "write `plain = an_object.plain` in the module"),
        ("SEMANTIC", {}, "it is dict"),
    ],
)
def test_what_could_answer_nothing_is_refused_with_what_to_write(name: str, handler: dict[str, Any], cure: str) -> None:
    """At a check and a start, in one line; not by the first call, and not by a traceback."""
    declared = name.startswith("by_") or name in (
        "task",
        "deferred",
        "awaitable",
        "outside",
        "stream",
        "nothing",
        "dated",
        "pair",
    )
    declared = declared or name in ("unfinished", "declared_method", "twice", "Declared")
    with pytest.raises(ConfigurationError) as wrong:
        host_of(name, {} if declared else SCHEMAS, **handler).core
    (problem,) = wrong.value.problems
    assert cure in str(problem) and "\n" not in str(problem), str(problem)


async def _without_loop() -> None:
    asyncio.get_running_loop()


async def _of_a_future() -> None:
    loop = asyncio.new_event_loop()
    try:
        await ensureDeferred(_waits(loop))
    finally:
        loop.close()


async def _waits(loop: asyncio.AbstractEventLoop) -> None:
    await loop.create_future()


@pytest.mark.parametrize(
    ("run", "advice"),
    [
        (lambda: _of_a_future().send(None), "write asyncio = true below [handler]"),
        (lambda: _without_loop().send(None), "write asyncio = true below [handler]"),
        (lambda: asyncio.run(_of_a_deferred()), "leave out asyncio = true"),
        (lambda: [][1], ""),
    ],
)
def test_a_failed_call_of_the_wrong_loop_says_what_to_write(run: Callable[[], Any], advice: str) -> None:
    """What no look at the function finds is told with the traceback of its first call."""
    with pytest.raises(Exception) as failed:
        run()
    assert advice_on(failed.value).endswith(advice) and bool(advice_on(failed.value)) is bool(advice)


async def _of_a_deferred() -> None:
    await Deferred()
