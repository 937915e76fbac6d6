"""
What the course of a call knows of its trace: nothing of how spans are made, which is :mod:`agtphost.traces`.

Where no ``[traces]`` is configured no call has a trace, and nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")

Fields = tuple[tuple[str, str], ...]
"""``traceparent``, and ``tracestate`` where there is one, with their values."""

Attributes = Mapping[str, str | int | bool]
"""Of a span. Never an argument, a result, or a secret."""


class ClientSpan(Protocol):
    """The span of one request to an upstream."""

    @property
    def fields(self) -> Fields:
        """Return the header fields that carry the trace to the upstream."""

    def end(self, error: str = "") -> None:
        """
        End the span.

        :param error: what went wrong, as a word; empty where nothing did.
        """


class CallTrace(Protocol):
    """The span of one call of this host."""

    reason: str
    """Why the call is refused; empty where it is not."""

    @property
    def record_members(self) -> Mapping[str, str]:
        """Return the members that describe the trace in the call's record."""

    @property
    def fields(self) -> Fields:
        """Return the header fields that carry the trace to a call made in the course of this one."""

    def part(self, name: str) -> None:
        """Begin a span for the next part of the call, and end the one before it."""

    def client(self, name: str, attributes: Attributes) -> ClientSpan:
        """Begin a span for a request to an upstream."""

    def finish(self, status: int) -> None:
        """End the span of the call, which is answered."""


def no_error(_: object) -> str:
    """Return an empty error: every answer counts as a success."""
    return ""


async def end_span_after(span: ClientSpan | None, work: Awaitable[T], error_of: Callable[[T], str] = no_error) -> T:
    """
    Await ``work``, and end its span with it.

    :param span: None where the call is not traced.
    :param error_of: what is wrong with an answer, as a word.
    """
    if span is None:
        return await work
    try:
        result = await work
    except BaseException as error:
        span.end(type(error).__name__)
        raise
    span.end(error_of(result))
    return result


def fields_of(span: ClientSpan | None) -> Fields:
    """Return the header fields that carry the trace to an upstream; empty without a span."""
    return () if span is None else span.fields
