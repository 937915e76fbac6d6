"""What a handler sees of an exchange: a caller that is believed, or none (design decision 4)."""

from __future__ import annotations

from typing import Any

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.invocation import Dispatches, Interim, Invocation
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.context import EndpointContext
from agtphost.vocabulary.given_values import copy_given


def shown_to_handler(by: Dispatches, exchange: Exchange, interim: Interim | None) -> tuple[Exchange, Invocation]:
    """Return what a handler sees of an exchange, without a caller that is ``unseen``, and what it calls through."""
    if not exchange.unseen:
        return exchange, Invocation(by, exchange, interim)
    seen = exchange.without_caller()
    return seen, Invocation(by, seen if exchange.nameless else exchange, interim)


def wide_context(by: Dispatches, exchange: Exchange, deadline: float, interim: Interim | None) -> BuiltInContext:
    """
    Return the context that a built-in gets. Each member is named again: copying the narrow context would cost as
    much again.

    :param deadline: in seconds of the host's clock.
    """
    exchange, invocation = shown_to_handler(by, exchange, interim)
    return BuiltInContext(
        input=exchange.input,
        method=exchange.method,
        path=exchange.path,
        path_parameters=exchange.path_parameters,
        caller=exchange.caller,
        assurance=exchange.assurance,
        acting_principal=exchange.acting_principal,
        scopes=exchange.scopes,
        agent=exchange.agent,
        session_id=exchange.session_id,
        task_id=exchange.task_id,
        request_id=exchange.request_id,
        idempotency_key=exchange.idempotency_key,
        forwarded=exchange.peer.forwarded,
        deadline=deadline,
        emit=invocation.emit,
        invoke=invocation.invoke,
        named=exchange.agent_id is not None,
        headers=exchange.request.headers,
        peer=exchange.peer,
        admits=invocation.admits,
        authority=invocation.authority,
        invocation=invocation,
    )


def narrow_context(
    by: Dispatches, exchange: Exchange, handler: Any, deadline: float, interim: Interim | None
) -> EndpointContext:
    """
    Return the context that an operator's code gets. What it changes in it is changed for no one else.

    :param deadline: in seconds of the host's clock.
    """
    invocation = Invocation(by, exchange, interim)
    if exchange.unseen:
        exchange, invocation = shown_to_handler(by, exchange, interim)
    if handler.kind == "composition":
        invocation.announce(handler.steps)
    named, forwarded = exchange.path_parameters, exchange.peer.forwarded
    return EndpointContext(
        input=copy_given(exchange.input),
        method=exchange.method,
        path=exchange.path,
        path_parameters=copy_given(named) if named else named,
        caller=exchange.caller,
        assurance=exchange.assurance,
        acting_principal=exchange.acting_principal,
        scopes=exchange.scopes,
        agent=exchange.agent,
        session_id=exchange.session_id,
        task_id=exchange.task_id,
        request_id=exchange.request_id,
        idempotency_key=exchange.idempotency_key,
        forwarded=copy_given(forwarded) if forwarded else forwarded,
        deadline=deadline,
        emit=invocation.emit,
        invoke=invocation.invoke,
    )
