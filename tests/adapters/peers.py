"""Upstreams of other protocols for the tests: real ones in processes of their own, and the calls they are called on."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred

from agtphost.audit.state import StateTable
from agtphost.dispatch.exchange import Exchange
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance, Peer
from agtphost.stores.rows import ItemRow
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary import jsontext
from agtphost.wire.events import Request
from tests import forking
from tests.adapters.mcp.hosting import until
from tests.dispatch.hosts import agent

ALICE, BOB = agent("a" * 64, "alice", hosted=False), agent("b" * 64, "bob", hosted=False)


@contextmanager
def process(*command: str) -> Iterator[int]:
    """A server that prints its port first; killed afterwards."""
    child = subprocess.Popen([*command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdout is not None
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.wait(60)


def python(script: Any, *arguments: str) -> Any:
    """A server on the A2A SDK."""
    return process(*forking.launched(forking.a2a_sdk(), script, *arguments))


class Book(StateTable):
    """State items that are committed at once."""

    def commit(self, changes: Sequence[Any]) -> None:
        """What the ledger does in its transaction."""
        admitted = self.admit(changes)
        self.settle(admitted)
        for change in admitted.changes:
            known = self.get(change.kind, change.key)
            self.apply(
                [
                    ItemRow(
                        kind=change.kind,
                        key=change.key,
                        owner=bytes.fromhex(change.owner),
                        version=1 if known is None else known.version + 1,
                        expires_at=change.expires_at,
                        value=None if change.value is None else jsontext.encode(dict(change.value)),
                    )
                ]
            )


class Invocation:
    """What a handler may ask of the dispatcher: here it commits to the book."""

    def __init__(self, book: Book, *, stream: bool) -> None:
        self._book = book
        self.exchange = Exchange(Request(method="EXECUTE"), Peer(address="127.0.0.1"), 0.0)
        self.exchange.context = {"stream": stream}
        self.committed: list[Any] = []

    async def commit(self, event: Any, changes: Any, extra: Any) -> str:
        self.committed.append((event, tuple(changes)))
        self._book.commit(changes)
        return "0" * 64


class AdapterCalls:
    """Calls actions of an adapter as the dispatcher would, after the gates."""

    def __init__(self, adapter: Any, book: Book) -> None:
        self.adapter = adapter
        self.book = book
        self.events: list[Any] = []
        self.invocation: Invocation | None = None

    async def call(
        self, action: str, payload: Any = None, *, caller: Any = ALICE, stream: bool = False, **members: Any
    ) -> Any:
        """
        One call.

        :raises Refusal: as the handler does; what either changes is committed.
        """
        resolution = self.adapter.resolve(action, payload, None)
        schema = resolution.binding.input_schema
        assert schema is None or schema.is_valid(resolution.input), schema.faults(resolution.input)
        self.events = []
        self.invocation = Invocation(self.book, stream=stream)

        async def emit(event: Any) -> None:
            self.events.append(event)

        context = BuiltInContext(
            input=resolution.input,
            method="EXECUTE",
            path="/",
            caller=caller,
            assurance=Assurance.CERTIFICATE,
            emit=emit,
            invocation=self.invocation,
            **members,
        )
        try:
            answer = resolution.effective_handler.handle(context)
            if not hasattr(answer, "result"):
                answer = await ensureDeferred(answer)
        except Exception as refusal:
            self.book.commit(getattr(refusal, "changes", ()))
            raise
        self.book.commit(answer.changes)
        return answer


@asynccontextmanager
async def kept(upstream: Any, *, wait: bool = True) -> AsyncIterator[Any]:
    """An upstream under supervision, up unless ``wait`` is False; ended when the block is left."""
    service = upstream
    service.startService()
    try:
        if wait:
            await until(lambda: service.state is UpstreamState.UP, 20, f"not up: {service.snapshot()}")
        yield upstream
    finally:
        await service.stopService()


def seconds() -> float:
    """The reactor's time."""
    return float(reactor.seconds())  # type: ignore[attr-defined]


def begun(coroutine: Any) -> Deferred[Any]:
    """A call, begun now."""
    return Deferred.fromCoroutine(coroutine)
