"""Whether a function can answer where its declaration says that it runs: looked at before a start."""

from __future__ import annotations

import asyncio
import dis
import inspect
import os
import typing
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import is_dataclass
from types import CodeType, ModuleType
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.handlers.endpoint import SIGNATURE, written_function
from agtphost.handlers.function import UnresolvableFunction
from agtphost.handlers.type_schemas import is_model

_FROM_LOOP = (
    "asyncio.to_thread(blockingCallFromThread, reactor, FUNCTION) with that function of twisted.internet.threads"
)
"""How a coroutine on the loop of asyncio waits for a Deferred, which belongs to the reactor's thread."""

_ON_LOOP = frozenset({"aiohttp", "anyio", "asyncio"})
"""Packages whose coroutines need the event loop of asyncio."""

_OTHERS = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__)))

_BETWEEN = frozenset({"fromFuture", "asFuture"})
"""Methods of a Deferred that lead to asyncio and back: who uses them knows which loop runs."""


def require_suitable(function: Callable[..., Any], *, blocking: bool, on_loop: bool) -> None:
    """
    Refuse a function that could answer no call where it runs.

    :param blocking: whether it runs in a thread.
    :param on_loop: whether it runs on the event loop of asyncio.
    :raises UnresolvableFunction: with what to write.
    """
    declared = getattr(function, SIGNATURE, None)
    plain = written_function(getattr(declared, "function", function))
    name = getattr(plain, "__qualname__", str(plain))
    if declared is None:
        _require_call_alone(function, plain, name)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UnresolvableFunction(
            f"{name} is a generator, which cannot be an answer",
            "return the answer; send interim messages by `await context.emit({...})`, and decorate a generator that "
            "yields Deferreds with twisted.internet.defer.inlineCallbacks, below @endpoint",
        )
    if not inspect.iscoroutinefunction(plain):
        _require_suitable_result(plain, name, blocking=blocking, on_loop=on_loop)
        return
    if blocking:
        raise UnresolvableFunction(
            f"{name} is a coroutine, which a thread cannot wait for",
            "write `def` in place of `async def`, or asyncio = true in place of blocking = true",
        )
    used = None if on_loop else _asyncio_in(plain)
    if used is not None:
        raise UnresolvableFunction(
            f"{name} uses {used}, whose event loop does not run in the reactor's thread",
            "write asyncio = true below [handler]",
        )


def _require_call_alone(function: Callable[..., Any], plain: Any, name: str) -> None:
    """Refuse a function without ``@endpoint`` that cannot be called with the context of a call."""
    if isinstance(plain, type) and not (issubclass(plain, Mapping) or is_dataclass(plain) or is_model(plain)):
        raise UnresolvableFunction(
            f"{name} is a class, whose instances cannot be answers", "write a function that answers"
        )
    try:
        parameters = [*inspect.signature(function).bind(None).arguments]
    except TypeError as error:
        raise UnresolvableFunction(
            f"{name} cannot be called with the call alone: {error}",
            "give it one parameter, the EndpointContext, or write @endpoint above it and type hints for its parameters",
        ) from None
    except ValueError:  # Some functions of C do not say what they take.
        return
    try:
        kind = typing.get_type_hints(plain).get(parameters[0])
    except Exception:
        return
    if kind in (str, int, float, bool) or typing.get_origin(kind) is list:
        raise UnresolvableFunction(
            f"{name} takes {parameters[0]} as a member of the input, and would be given the whole call",
            "write @endpoint above it: from agtphost import endpoint",
        )


def _require_suitable_result(function: Any, name: str, *, blocking: bool, on_loop: bool) -> None:
    """Refuse a function whose type hint says that it returns what cannot be waited for where it runs."""
    try:
        kind = typing.get_type_hints(function).get("return")
    except Exception:  # Hints that cannot be read say nothing.
        return
    waits = typing.get_origin(kind) or kind
    if not isinstance(waits, type):
        return
    said = f"{name} returns {waits.__name__}"
    if blocking and issubclass(waits, (Awaitable, Generator)):
        raise UnresolvableFunction(
            f"{said}, which a thread cannot wait for",
            "return the answer itself, or leave out blocking = true",
        )
    if on_loop and (issubclass(waits, (Deferred, Generator))):
        raise UnresolvableFunction(
            f"{said}, for which the event loop of asyncio cannot wait",
            f"leave out asyncio = true, or make it a coroutine that awaits {_FROM_LOOP}",
        )
    if not on_loop and issubclass(waits, asyncio.Future):
        raise UnresolvableFunction(
            f"{said} of asyncio, whose event loop does not run in the reactor's thread",
            "write asyncio = true below [handler]",
        )


def _asyncio_in(function: Any, seen: frozenset[Any] = frozenset()) -> str | None:
    """
    Return what a coroutine uses of asyncio, itself or by other coroutines of its author; None if it uses a bridge.

    :param seen: functions that were looked into.
    """
    function = getattr(function, "__func__", function)
    codes = [*_codes(function.__code__)]
    names = dict.fromkeys(name for code in codes for name in code.co_names)
    if not _BETWEEN.isdisjoint(names):
        return None
    if "deferToThread" not in names:  # The function of a thread may start a loop there.
        imported = (each for code in codes if code.co_flags & inspect.CO_COROUTINE for each in _imported_by(code))
        for package in imported:
            if package in _ON_LOOP:
                return package
    helpers: list[Any] = []
    for name in names:
        value = function.__globals__.get(name)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        package = module.partition(".")[0] if isinstance(module, str) else ""
        if package in _ON_LOOP:
            return package if isinstance(value, ModuleType) else f"{name} of {package}"
        if isinstance(value, ModuleType) and _is_authors(getattr(value, "__file__", None)):
            helpers.extend(vars(value).get(inner) for inner in names)
        helpers.append(value)
    for each in helpers:
        if inspect.iscoroutinefunction(each) and each not in seen and _is_authors(_file_of(each)):
            found = _asyncio_in(each, seen | {function, *filter(inspect.isfunction, helpers)})
            if found is not None:
                return found
    return None


def _file_of(function: Any) -> str | None:
    """Return the file that a function was written in."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return None if code is None else str(code.co_filename)


def _is_authors(file: str | None) -> bool:
    """Return whether a file is the operator's: neither this host's, nor of the standard library or a package."""
    return file is not None and not file.startswith(_OTHERS) and "-packages" not in file


def advice_on(error: BaseException) -> str:
    """Return what to write where a function failed because it ran without the event loop that it needs, or in one."""
    said = f"{type(error).__name__}: {error}"
    if (
        "await wasn't used with future" in said
        or "no running event loop" in said
        or "NoEventLoopError" in said
        or "AsyncLibraryNotFoundError" in said
    ):
        return ": it uses asyncio; write asyncio = true below [handler]"
    if "Task got bad yield: <Deferred" in said:
        return (
            f": the event loop of asyncio cannot wait for a Deferred; await {_FROM_LOOP}, where FUNCTION returns it, "
            "or leave out asyncio = true"
        )
    return ""


def _imported_by(code: CodeType) -> set[str]:
    """Return the packages that a function imports when it runs."""
    instructions = dis.get_instructions(code)
    return {str(each.argval).partition(".")[0] for each in instructions if each.opname == "IMPORT_NAME"}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
