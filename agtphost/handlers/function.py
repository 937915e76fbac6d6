"""
Registered functions: one dotted path, imported when the endpoint is registered (AGTP-API section 12.2).

A function runs in the reactor's thread, so it must not wait: it returns at
once, or a coroutine or Deferred that does the waiting. One that cannot, as it
calls a library that blocks, is declared with ``blocking = true``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
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
"""Seconds for which a function may hold the reactor before it is told of: P14."""

SOUGHT = "mend the module, or the name; [endpoints] python_path says where modules are looked for first"

log = Logger()


class UnresolvableFunction(Exception):
    """
    The dotted path names nothing that can be called; the message says which part is missing.

    :param hint: what to do about it.
    :param place: the file and the line to mend, where that is not the endpoint's declaration.
    :param cause: what is missing, where other endpoints may lack the same: it is reported once for all of them.
    """

    def __init__(
        self,
        message: str,
        hint: str = "mend [handler] of the endpoint, or what it names",
        place: tuple[str, int] | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.place = place
        self.cause = cause


def resolve(dotted: str, find: Callable[[str], Any] = importlib.import_module) -> Function:
    """
    Import what a dotted path names.

    :param dotted: ``package.module.function``.
    :param find: imports a module.
    :raises UnresolvableFunction: for a module that cannot be imported, or a name it does not have.
    """
    module_name, _, name = dotted.rpartition(".")
    if not module_name or not name:
        raise UnresolvableFunction(f"{dotted!r} is not a dotted path such as package.module.function")
    try:
        module = find(module_name)
    except SyntaxError as error:
        text = f": {error.text.strip()[:80]}" if error.text else ""
        place = (error.filename, error.lineno or 1) if error.filename else None
        raise UnresolvableFunction(
            f"the module is not Python: {type(error).__name__}: {error.msg}{text}", "mend that line", place
        ) from error
    except (Exception, SystemExit) as error:
        # Whatever the module's own code raises is the operator's to read, not a reason to crash the start.
        raise UnresolvableFunction(f"the module {module_name} cannot be imported: {error!r}", SOUGHT) from error
    function = getattr(module, name, None)
    if function is None:
        raise UnresolvableFunction(f"the module {module_name} has no {name}", SOUGHT)
    if not callable(function):
        raise UnresolvableFunction(f"{dotted} is not callable")
    return function  # type: ignore[no-any-return]


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
        self.handle: Function = self._watched

    def _watched(self, context: EndpointContext) -> Any:
        began = self._seconds()
        try:
            return self._function(context)
        finally:
            held = self._seconds() - began
            if held > LONGEST_CALL:
                self.handle = self._function
                log.warn(
                    "{method} {path} held the whole host for {milliseconds:.0f} ms: declare its handler "
                    "blocking = true, or make it a coroutine that waits (said once)",
                    method=context.method,
                    path=context.path,
                    milliseconds=held * 1000,
                )


@implementer(IHandler)
class BlockingFunction:
    """
    Calls a function in a thread.

    Inside it, ``context.invoke`` and ``context.emit`` wait by themselves and
    return what they otherwise resolve to.

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
        """Call it; see :class:`agtphost.iagtp.IHandler`."""
        inside = replace(context, invoke=self._waiting(context.invoke), emit=self._waiting(context.emit))
        run = copy_context().run  # What the thread logs is this call's.
        return self._threads.run(lambda: run(self._function, inside))

    def _waiting(self, asynchronous: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a thread, which waits."""

        def begin(*arguments: Any) -> Deferred[Any]:
            async def run() -> Any:
                return await asynchronous(*arguments)

            return ensureDeferred(run())

        def wait(*arguments: Any) -> Any:
            return blockingCallFromThread(self._reactor, begin, *arguments)

        return wait
