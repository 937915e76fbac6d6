"""
Statements that the evidence of this host was verified: CONFIRM and QUERY on ``/verifications``.

``agtp audit verify`` reads the store, or asks the host record by record, without having to believe it. What it came to
is a statement of the verifier, and is recorded as that: by whom, when, and of how many records.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.contract.reserved import VERIFYING
from agtphost.handlers import parameters
from agtphost.handlers.authorization import INSPECT_ALL, Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import VERIFICATION

STATE, LOOK = VERIFYING
LAST = "last"
"""The key of the newest; those before it are in the log."""

MOST = 2**53


@implementer(IBuiltInHandler)
class Verifications:
    """
    Keeps what the last verification came to.

    :param now: seconds since the Unix epoch.
    """

    kind = "built_in"

    def __init__(self, held: StateTable, authorization: Authorization, now: Callable[[], float] = time.time) -> None:
        self._held = held
        self._authorization = authorization
        self._now = now

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Return the last statement, or record a new one.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        if context.method == LOOK[0]:
            self._authorization.require_looking(context, "Only operators see the results of verifications.")
            item = self._held.get(VERIFICATION, LAST)
            return Answer(result={"verification": None if item is None else dict(item.value)})
        who = self._authorization.require(context, INSPECT_ALL, "Only operators may record verifications.")
        said = _read_statement(context)
        value = {**said, "stated_by": who, "stated_at": times.stamp(self._now())}
        change = Change(kind=VERIFICATION, key=LAST, value=value)
        return Answer(result={"verification": value}, changes=(change,), extra={"audit_verify": said})


def _read_statement(context: BuiltInContext) -> dict[str, Any]:
    """
    Read the statement.

    :raises agtphost.errors.Refusal: 422 for one that contradicts itself, or is none.
    """
    verified, counts = context.input.get("verified"), {}
    if not isinstance(verified, bool):
        raise parameters.invalid("verified", "verified must be true or false.", "Send it.", missing=True)
    for name in ("records", "faults"):
        counts[name] = value = context.input.get(name)
        if type(value) is not int or not 0 <= value <= MOST:
            raise parameters.invalid(
                name, f"The parameter {name} is not a number of records.", "Send a whole number.", missing=True
            )
    if verified == bool(counts["faults"]):
        raise parameters.invalid(
            "faults",
            "verified is true, but there are faults.",
            "Send the number of faults and verified so that they agree.",
        )
    return {"verified": verified, **counts, "source": parameters.text(context.input, "source") or ""}
