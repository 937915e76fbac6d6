"""The interface of an operator's handler."""

from __future__ import annotations

from typing import Any

from zope.interface import Attribute

from agtphost.contract.binding import IBindingHandler
from agtphost.handlers.context import EndpointContext


class IHandler(IBindingHandler):
    """
    The handler of an endpoint, which answers once every gate let the request pass.

    An extension point: ``[handler] type = "plugin"``, see ``docs/extending/handler.rst``.
    """

    kind = Attribute("str: what lists call it, such as registered_function, composition, external_service or plugin")

    def handle(context: EndpointContext) -> Any:
        """
        Do the work.

        :return: a mapping (the result), an :class:`~agtphost.EndpointResponse`, or an awaitable of either.
        :raises agtphost.EndpointError: for an error that the endpoint declares.
        :raises agtphost.errors.Refusal: for any other specified status.
        """
