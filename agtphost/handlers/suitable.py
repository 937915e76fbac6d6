"""Whether a function can answer where its declaration says that it runs: looked at before a start."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

from agtphost.handlers.endpoint import SIGNATURE
from agtphost.handlers.function import UnresolvableFunction

_BETWEEN = frozenset({"fromFuture", "asFuture"})
"""Methods of a Deferred that lead to asyncio and back: who uses them knows which loop runs."""


def require_suitable(function: Callable[..., Any], *, blocking: bool, on_loop: bool) -> None:
    """
    Refuse a function that could answer no call where it runs.

    :param blocking: whether it runs in a thread.
    :param on_loop: whether it runs on the event loop of asyncio.
    :raises UnresolvableFunction: with what to write.
    """
    plain = getattr(getattr(function, SIGNATURE, None), "function", function)
    name = getattr(plain, "__qualname__", str(plain))
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UnresolvableFunction(
            f"{name} is a generator, which cannot be an answer",
            "return the answer; send interim messages by `await context.emit({...})`, and decorate a generator that "
            "yields Deferreds with twisted.internet.defer.inlineCallbacks",
        )
    if not inspect.iscoroutinefunction(plain):
        return
    if blocking:
        raise UnresolvableFunction(
            f"{name} is a coroutine, which a thread cannot wait for",
            "write `def` in place of `async def`, or asyncio = true in place of blocking = true",
        )
    used = None if on_loop else _asyncio_in(plain)
    if used is not None:
        raise UnresolvableFunction(
            f"{name} uses {used} of asyncio, whose event loop does not run in the reactor's thread",
            "write asyncio = true below [handler]",
        )


def _asyncio_in(function: Any) -> str | None:
    """
    Return the name by which a coroutine uses asyncio directly; None where it does not, or uses a bridge between the
    two.
    """
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    if not _BETWEEN.isdisjoint(names):
        return None
    for name in names:
        value = function.__globals__.get(name)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if value is asyncio or (isinstance(module, str) and module.partition(".")[0] == "asyncio"):
            return name
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
