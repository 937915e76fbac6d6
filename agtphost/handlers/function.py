"""
Registered functions: one dotted path, imported when the endpoint is registered (AGTP-API section 12.2).

A function runs in the reactor's thread, so it must not wait: it returns at
once, or a coroutine or Deferred that does the waiting. One that cannot, as it
calls a library that blocks, is declared with ``blocking = true``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import stat
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import blockingCallFromThread
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.handlers.context import EndpointContext
from agtphost.handlers.interface import IHandler
from agtphost.handlers.threads import Threads

Function = Callable[[EndpointContext], Any]

LONGEST_CALL = 0.1
"""Seconds for which a function may block the reactor before it is logged: P14."""

SOUGHT = "mend the module, or the name; [endpoints] python_path says where modules are looked for first"

_ABSENT = object()
_PYTHON = os.path.dirname(os.__file__)

log = Logger()


class UnresolvableFunction(Exception):
    """
    The dotted path names nothing that can be called; the message says which part is missing.

    :param hint: what to do about it.
    :param place: the file and the line to mend, where that is not the endpoint's declaration.
    :param cause: what is missing, where other endpoints may lack the same: it is reported once for all of them.
    :param absent: whether the function does not exist, so that another name may be meant.
    """

    def __init__(
        self,
        message: str,
        hint: str = "mend [handler] of the endpoint, or what it names",
        place: tuple[str, int] | None = None,
        cause: str = "",
        *,
        absent: bool = False,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.place = place
        self.cause = cause
        self.absent = absent


def resolve(dotted: str, find: Callable[[str], Any] = importlib.import_module) -> Function:
    """
    Import what a dotted path names.

    :param dotted: ``package.module.function``.
    :param find: imports a module.
    :raises UnresolvableFunction: for a module that cannot be imported, or a name it does not have.
    """
    module_name, _, name = dotted.rpartition(".")
    if not module_name or not name:
        raise UnresolvableFunction(f"{dotted!r} is not a dotted path such as package.module.function", absent=True)
    if module_name not in sys.modules:
        _require_file(module_name)
    try:
        module = find(module_name)
    except SyntaxError as error:
        text = f": {error.text.strip()[:80]}" if error.text else ""
        place = (
            (error.filename, error.lineno or 1) if error.filename else _failed_line(error) or _first_line(module_name)
        )
        raise UnresolvableFunction(
            f"the module is not Python: {type(error).__name__}: {error.msg}{text}", "mend that line", place
        ) from error
    except ModuleNotFoundError as error:
        _require_file(error.name or "")
        hint, place = _instead_of(module_name, name, find), _failed_line(error)
        said = f"the module {module_name} cannot be imported: {error!r}"
        raise UnresolvableFunction(said, hint or SOUGHT, place, absent=not hint and place is None) from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise  # Someone interrupts the start; in other threads it is raised by the module.
        # An error of the module's own code is reported to the operator, and must not crash the start.
        said, place = f"the module {module_name} cannot be imported: {error!r}", _failed_line(error)
        raise UnresolvableFunction(said, "mend that line, or what it needs" if place else SOUGHT, place) from error
    function = getattr(module, name, _ABSENT)
    if function is _ABSENT:
        raise UnresolvableFunction(f"the module {module_name} has no {name}", SOUGHT, absent=True)
    if not callable(function):
        raise UnresolvableFunction(
            f"{dotted} is not callable: it is {type(function).__name__}", "write a function there"
        )
    return function


def _require_file(name: str) -> None:
    """
    Refuse a module whose file is a pipe, a socket or a device, which Python passes over as if it were not there.

    :param name: the full name of the module; its packages are looked at as well.
    :raises UnresolvableFunction: one of the files is none that can be read.
    """
    parts = name.split(".")
    for depth, last in enumerate(parts):
        for place in sys.path:
            folder = Path(place, *parts[:depth])
            for file in (folder / last / "__init__.py", folder / f"{last}.py"):
                with suppress(OSError, ValueError):
                    mode = file.stat().st_mode
                    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                        raise UnresolvableFunction(
                            f"the module {name} cannot be imported: {file} is a pipe, a socket or a device",
                            f"replace {file.name} by a file",
                        )


def _first_line(module_name: str) -> tuple[str, int] | None:
    """Return the file of a module and its first line, for errors without a place, such as that of a null byte."""
    with suppress(Exception):
        found = importlib.util.find_spec(module_name)
        return (found.origin, 1) if found is not None and found.origin else None
    return None


def _failed_line(error: BaseException) -> tuple[str, int] | None:
    """
    Return file and line of the operator's module code at which an import failed; None if none of it was executed.

    The standard library and installed packages are not the operator's.
    """
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" and not file.startswith(("<", _PYTHON)) and "-packages" not in file:
            found = file, line
    return found


def _instead_of(holder: str, name: str, find: Callable[[str], Any]) -> str:
    """Return what to write for a member of a class or an object; empty where the path names none."""
    module_name, _, inner = holder.rpartition(".")
    try:
        found = getattr(find(module_name), inner, None) if module_name else None
    except (Exception, SystemExit):
        return ""
    if not callable(getattr(found, name, None)):
        return ""
    instance = f"{inner}()" if isinstance(found, type) else inner
    return f'write `{name} = {instance}.{name}` in the module, and function = "{module_name}.{name}"'


@implementer(IHandler)
class RegisteredFunction:
    """
    Calls a function with the context.

    The first call that holds the reactor for longer than :data:`LONGEST_CALL`
    is logged; none after it, because the operator knows by then.

    :param function: returns a mapping, an EndpointResponse, an EndpointError,
        or a Deferred or coroutine of one of them.
    :param seconds: a clock.
    """

    kind = "registered_function"

    def __init__(self, function: Function, seconds: Callable[[], float] = perf_counter) -> None:
        self._function = function
        self._seconds = seconds
        self.handle: Function = self._call_timed

    def _call_timed(self, context: EndpointContext) -> Any:
        began = self._seconds()
        try:
            return self._function(context)
        finally:
            held = self._seconds() - began
            if held > LONGEST_CALL:
                self.handle = self._function
                log.warn(
                    "{method} {path} blocked the whole host for {milliseconds:.0f} ms: declare its handler "
                    "blocking = true, or make it a coroutine that waits (logged once)",
                    method=context.method,
                    path=context.path,
                    milliseconds=held * 1000,
                )


@implementer(IHandler)
class BlockingFunction:
    """
    Calls a function in a thread.

    There, ``context.invoke`` and ``context.emit`` block until their result, and return it.

    :param function: returns a mapping, an EndpointResponse or an EndpointError.
    :param threads: where it runs.
    :param reactor: where what it invokes runs.
    """

    kind = "registered_function"

    def __init__(self, function: Function, threads: Threads, reactor: IReactorFromThreads) -> None:
        self._function = function
        self._threads = threads
        self._reactor = reactor

    def handle(self, context: EndpointContext) -> Deferred[Any]:
        """Call the function in a thread; see :class:`agtphost.iagtp.IHandler`."""
        inside = replace(context, invoke=self._waiting(context.invoke), emit=self._waiting(context.emit))
        run = copy_context().run  # What the thread logs is this call's.
        return self._threads.run(lambda: run(self._function, inside))

    def _waiting(self, asynchronous: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls an asynchronous one in the reactor's thread, and blocks until its result."""

        def begin(*arguments: Any) -> Deferred[Any]:
            async def run() -> Any:
                return await asynchronous(*arguments)

            return ensureDeferred(run())

        def wait(*arguments: Any) -> Any:
            return blockingCallFromThread(self._reactor, begin, *arguments)

        return wait
