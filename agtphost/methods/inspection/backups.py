"""INSPECT ``target=backup``: who backs this host up, put on record by the host itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext

MOMENTS = ("begins", "made")

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Backups:
    """Takes what the command says of a backup; the record of the answer has it."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Answer:
        """
        ``moment`` is ``begins``, or ``made`` with the file's ``sha256`` and its ``records``.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, "Only operators may make backups.")
        moment = parameters.choice(context.input, "moment", MOMENTS)
        told: dict[str, Any] = {"moment": moment, "by": self._authorization.actor(context)}
        if moment == MOMENTS[1]:
            told["sha256"] = parameters.matching(
                context.input,
                "sha256",
                lambda text: _DIGEST.fullmatch(text) is not None,
                "64 lower-case hexadecimal digits",
            )
            told["records"] = parameters.count(context.input, "records", 0, 2**53)
        said: Mapping[str, Any] = {"backup": told}
        return Answer(result=said, extra=said)
