"""
The rules for a handler's answer, and the refusals for others: an undeclared error, an output that breaks its schema.
"""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import CompiledSchema, TooCostly
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, Overstepped, require_plain_refusal
from agtphost.handlers.context import EndpointError, EndpointResponse
from agtphost.identity.peer import Peer
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status

log = Logger()


def check_output(binding: Binding, schema: CompiledSchema, answer: Any) -> None:
    if isinstance(answer, EndpointResponse):
        if answer.status >= 300 or (isinstance(answer, Answer) and not answer.enveloped):
            return
        result = answer.result
        if answer.status == Status.NO_CONTENT and result is None:
            # No body, and so nothing that a schema could be about.
            return
    else:
        result = answer
    try:
        if schema.is_valid(result):
            return
    except TooCostly as error:
        log.error("{method} {path}: {why}", method=binding.method, path=binding.path, why=str(error))
        raise Refusal(
            Reason.INVALID_OUTPUT,
            "The handler's answer cannot be checked against the endpoint's output schema.",
            details={"detail": error.reason},
        ) from None
    log.error(
        "{method} {path} answered outside its output schema: {faults}",
        method=binding.method,
        path=binding.path,
        faults=schema.faults(result),
    )
    raise Refusal(Reason.INVALID_OUTPUT, "The handler's answer does not follow the endpoint's output schema.")


def require_plain(binding: Binding, refusal: Refusal) -> None:
    """Require that operator code refuses without what only the host may say (:func:`require_plain_refusal`)."""
    try:
        require_plain_refusal(refusal)
    except Overstepped as error:
        raise refuse_overstepping(binding, error) from None


def refuse_overstepping(binding: Binding, error: Overstepped) -> Refusal:
    """
    Return the refusal for an answer that no handler may give. The caller only learns that the handler failed; the log
    says why.
    """
    log.error(
        "the handler of {method} {path} returned an answer that is not allowed, so its caller got 500: {why}{where}",
        method=binding.method,
        path=binding.path,
        why=str(error),
        where=f" (endpoint in {binding.origin})" if binding.origin else "",
    )
    return surprise()


def refuse_named_error(binding: Binding, error: EndpointError) -> Refusal:
    """Return the refusal for a named error: 422, or 500 where the endpoint does not declare it."""
    if error.name not in binding.errors:
        log.error(
            "the handler of {method} {path} raised EndpointError({name!r}), which the endpoint does not declare, "
            "so that its caller got 500; to answer 422 with it, add {name!r} to errors of the endpoint{where}; "
            "declared: {declared}",
            method=binding.method,
            path=binding.path,
            name=error.name,
            where=f" in {binding.origin}" if binding.origin else "",
            declared=", ".join(sorted(binding.errors)) or "none",
        )
        return surprise()
    return Refusal(
        ForeignReason(error.name, Status.UNPROCESSABLE),
        "The endpoint answered with one of its declared errors.",
        details={"details": dict(error.details)},
    )


def surprise() -> Refusal:
    return Refusal(
        Reason.SERVER_ERROR, remedy="Tell the operator the Audit-ID of this response; the host's log has the details."
    )


def given_up() -> Refusal:
    return Refusal(Reason.CANCELLED)


def refuse_unreadable(reason: Reason, explanation: str, peer: Peer) -> Refusal:
    """Return the refusal of octets that never became a request; the connection of an HTTP client stays open."""
    again = "Open a new connection and send a well-formed request."
    if peer.http:
        again = "Correct that, and send the request again."
    return Refusal(reason, explanation, remedy=again, close=True)
