"""The family of what grants, signs, logs, cancels, hands over and delivers: its built-ins, and what they share."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.methods.standard.authorization import Authorizing, cancel_grant
from agtphost.methods.standard.cancellation import Cancellation, Source
from agtphost.methods.standard.logging import Logging
from agtphost.methods.standard.parts import Parts
from agtphost.methods.standard.signing import Signing


def sources(parts: Parts) -> tuple[Source, ...]:
    """What CANCEL can cancel, kind by kind."""
    return (cancel_grant(parts),)


def handlers(parts: Parts) -> Mapping[str, IBuiltInHandler]:
    """By method."""
    return {
        "AUTHORIZE": Authorizing(parts),
        "CANCEL": Cancellation(parts.held, sources(parts), parts.now),
        "LOG": Logging(parts),
        "SIGN": Signing(parts),
    }
