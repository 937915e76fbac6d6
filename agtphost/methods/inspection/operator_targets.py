"""Targets of INSPECT that tell overseers what one part of the host says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext


class Overseen:
    """
    Reports the state of one part of the host to overseers.

    :param tell: what there is to tell, at this moment.
    :param said: a sentence about who may ask for it.
    """

    def __init__(self, tell: Callable[[], Mapping[str, Any]], authorization: Authorization, said: str) -> None:
        self._tell = tell
        self._authorization = authorization
        self._said = said

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Return the part's report.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, self._said)
        return self._tell()
