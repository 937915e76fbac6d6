"""Registered functions: one dotted path, imported when the endpoint is registered (AGTP-API section 12.2)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IHandler

Function = Callable[[EndpointContext], Any]


class UnresolvableFunction(Exception):
    """The dotted path names nothing that can be called; the message says which part is missing."""


def resolve(dotted: str) -> Function:
    """
    Import what a dotted path names.

    :param dotted: ``package.module.function``.
    :raises UnresolvableFunction: for a module that cannot be imported, or a name it does not have.
    """
    module_name, _, name = dotted.rpartition(".")
    if not module_name or not name:
        raise UnresolvableFunction(f"{dotted!r} is not a dotted path such as package.module.function")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # Whatever the module's own code raises is the operator's to read, not a reason to crash the start.
        raise UnresolvableFunction(f"the module {module_name} cannot be imported: {error!r}") from error
    function = getattr(module, name, None)
    if function is None:
        raise UnresolvableFunction(f"the module {module_name} has no {name}")
    if not callable(function):
        raise UnresolvableFunction(f"{dotted} is not callable")
    return function  # type: ignore[no-any-return]


@implementer(IHandler)
class RegisteredFunction:
    """
    Calls a function with the context.

    :param function: returns a mapping, an EndpointResponse, an EndpointError,
        or a Deferred or coroutine of one of them.
    """

    kind = "registered_function"

    def __init__(self, function: Function) -> None:
        self.handle = function
