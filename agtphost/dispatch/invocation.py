"""Calls that a handler makes to other endpoints: through the dispatcher, as the same caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agtphost.audit.drafts import Change
from agtphost.contract.binding import Binding
from agtphost.dispatch import authority
from agtphost.dispatch.call_budget import Charges, InnerCalls, charge_later
from agtphost.dispatch.exchange import Exchange, Place
from agtphost.dispatch.in_flight import InFlightWork
from agtphost.dispatch.inner_results import result_of
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage
from agtphost.identity.peer import INTERNAL, FollowUp, Peer
from agtphost.vocabulary import jsontext, media_types, scopes
from agtphost.vocabulary.steps import Executor
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Common, Headers
from agtphost.wire.heads import PER_CALL

BOUNDS = ("AGTP-Zone-ID", "Budget-Limit")
"""Fields that bound what is done in a request's course, and so go along with every call that it makes."""

_BOUNDS = tuple((name, name.lower()) for name in BOUNDS)

OF_PURCHASE = ("Merchant-ID", "Merchant-Manifest-Fingerprint", "Intent-Assertion", "Cart-Digest")
COUNTERPARTY = (*OF_PURCHASE, "Budget-Limit")
"""Fields of a purchase, which a PURCHASE made in a request's course needs as much."""

MOST_HEADS = 100
"""Heads kept of the calls of one invocation: a BATCH has at most so many calls."""

MOST_NAMED = 100
"""Calls that the record of the one that made them names: with 160 of them callers could not read it as a header."""

MOST_KINDS = 4
"""Heads kept of the calls in the course of one peer's requests; the wire keeps the same number for a connection."""

Fields = tuple[tuple[str, str], ...]

LONG = 32_768
"""Octets of an answer that are worth a thread."""

Interim = Callable[[Response], None]
"""Sends an interim message."""


class Dispatches(Protocol):
    """The part of :class:`agtphost.dispatch.dispatcher.Dispatcher` that an invocation needs."""

    under_way: InFlightWork
    offload: Executor | None
    charges: Charges | None

    async def dispatch(
        self, request: Request, peer: Peer, interim: Interim | None = None, place: Place | None = None
    ) -> Response:
        """Answer one request."""

    async def send_interim(self, exchange: Exchange, event: Mapping[str, Any], interim: Interim) -> None:
        """Seal an interim message, and send it."""

    async def commit(
        self,
        exchange: Exchange,
        event: Mapping[str, Any],
        changes: Sequence[Change],
        extra: Mapping[str, Any],
        interim: Interim | None,
    ) -> str:
        """Make state items durable before a handler goes on."""

    async def withdraw(
        self, exchange: Exchange, refusal: Refusal, changes: Sequence[Change], extra: Mapping[str, Any]
    ) -> str:
        """Make state items durable with the record of a refusal."""


class Invocation:
    """
    The inner calls that one handler may make in its caller's name.

    The request it makes carries the caller's Agent-ID, the effective scopes
    of the present request and its identifiers, and goes through every gate:
    authority can shrink on the way, never grow (T-SC-50).
    """

    __slots__ = ("_calls", "_dispatcher", "_exchange", "_heads", "_inner", "_inside", "_interim", "_lasting", "_usual")

    def __init__(self, dispatcher: Dispatches, exchange: Exchange, interim: Interim | None) -> None:
        self._dispatcher = dispatcher
        self._exchange = exchange
        self._interim = interim
        self._calls: InnerCalls | None = None
        # Alike for every call that it makes, and a BATCH makes many.
        self._inner: Peer | None = None
        self._inside: _Inside | None = None
        self._usual: Headers | None = None
        self._lasting: Fields = ()
        self._heads: dict[tuple[str, str], _Head] = {}

    @property
    def under_way(self) -> InFlightWork:
        """The work in flight, which must be held by what goes on beyond the call: further calls are made through it."""
        return self._dispatcher.under_way

    async def emit(self, event: Mapping[str, Any]) -> None:
        """Send an interim message, where the caller asked for a stream and the transport carries them."""
        if self._interim is not None and self.streams:
            await self._dispatcher.send_interim(self._exchange, event, self._interim)

    def admits(self, binding: Binding) -> bool:
        """Return whether the caller could call ``binding``; lists leave out other bindings."""
        return authority.admits(self._exchange.for_lists, binding)

    def require(self, binding: Binding) -> None:
        """
        Let the caller's call of ``binding`` pass, or refuse it as the gates would.

        :raises Refusal: see :data:`.authority.CHECKS`.
        """
        for check in authority.CHECKS:
            check(self._exchange, binding)

    def admits_at(self, binding: Binding, agent: Agent) -> bool:
        """
        Return whether the caller could call ``binding`` at a different agent than the addressed one.

        :param agent: one that serves.
        """
        return authority.admits(replace(self._exchange.for_lists, agent=agent, agent_state=None), binding)

    @property
    def is_addressed_by_path(self) -> bool:
        """Whether the request names its addressee by the path ``/agents/NAME``."""
        return self._exchange.request.path.startswith("/agents/")

    @property
    def two_tokens(self) -> bool:
        """Whether the request line has no request-target, as deployed clients write it."""
        return self._exchange.request.two_tokens

    def authority(self) -> tuple[Any, ...]:
        """Return the values of the exchange that decide, with a binding, what :func:`.authority.admits` returns."""
        exchange = self._exchange.for_lists
        agent = exchange.agent
        return (
            None if exchange.caller is None else exchange.caller.agent_id,
            exchange.scopes,
            (exchange.assurance, exchange.nameless),
            None if agent is None else agent.agent_id,
            exchange.agent_state,
            exchange.narrowings,
            exchange.granted,
        )

    async def invoke(self, method: str, path: str, input: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Call another endpoint of this host.

        :return: the ``result`` of its response body.
        :raises Refusal: with the status and reason of a response outside 2xx.
        """
        response = await self.ask(method, path, input)
        offload = self._dispatcher.offload
        if offload is None or len(response.body) <= LONG:
            return result_of(response)
        found: Mapping[str, Any] = await offload(result_of, response)
        return found

    async def ask(
        self,
        method: str,
        path: str,
        input: Mapping[str, Any],
        relay: Interim | None = None,
        *,
        key: str = "",
        follow: FollowUp | None = None,
    ) -> Response:
        """
        Call another endpoint of this host, and return its answer, refusals included.

        :param relay: gets its interim messages, which it is asked for then.
        :param key: an Idempotency-Key of the caller's; empty for none.
        :param follow: what becomes true with the record of the call.
        :raises Refusal: calls inside calls go too deep, or are too many, or the caller's rate is used up.
        """
        place = self._inner_calls().enter(method)
        inner = self._caller() if follow is None else replace(self._caller(), follow=follow)
        kept = OF_PURCHASE if method == "PURCHASE" else ()
        request = self._request(
            method, path, input, kept=kept, stream=relay is not None, key=key, alone=follow is not None
        )
        response = await self._dispatcher.dispatch(request, inner, relay, place)
        self._note(response)
        return response

    def announce(self, calls: int, *, lists: bool = False, alone: bool = False) -> None:
        """Charge for calls before the first of them; see :meth:`.InnerCalls.announce`."""
        self._inner_calls().announce(calls, lists=lists, alone=alone)

    def charge_later(self, octets: int) -> None:
        """Charge for what is stored in the caller's name after the call; see :func:`.call_budget.charge_later`."""
        charge_later(self._dispatcher.charges, self._exchange, octets)

    def _inner_calls(self) -> InnerCalls:
        if self._calls is None:
            self._calls = InnerCalls(self._exchange, self._dispatcher.charges)
        return self._calls

    def _note(self, response: Response) -> None:
        """Note the record of an inner call, which the record of this call then names."""
        audit_id = response.audit_id
        if not audit_id:
            return
        if self._exchange.invoked is None:
            self._exchange.invoked = []
        if len(self._exchange.invoked) < MOST_NAMED:
            self._exchange.invoked.append(audit_id)

    def _caller(self) -> Peer:
        """Return the peer that makes the calls: the caller of the present request, from inside this host."""
        if self._inner is None:
            exchange = self._exchange
            peer, approved = exchange.peer, self._approval_of_steps()
            usual = not approved and exchange.granted is None and exchange.acting_principal is None
            inside = peer.inside
            if usual and type(inside) is _Inside and inside.peer.link is peer.link:
                self._inside, self._inner = inside, inside.peer
                return inside.peer
            self._inner = _inner(
                exchange,
                approved=approved,
                granted="" if exchange.granted is None else exchange.granted.token,
            )
            if usual:
                peer.inside = self._inside = _Inside(self._inner)
        return self._inner

    @property
    def streams(self) -> bool:
        """Whether the caller asked for a stream, and gets one."""
        return self._interim is not None and self._exchange.context.get("stream") is True

    def _approval_of_steps(self) -> str:
        """Return the approval under which the steps of this call run: only a recipe's are approved with it."""
        exchange = self._exchange
        if exchange.approval is None or exchange.binding is None or exchange.binding.handler.kind != "composition":
            return ""
        return exchange.approval.approval_id

    # For DELEGATE

    @property
    def exchange(self) -> Exchange:
        """The present request's progress through dispatch."""
        return self._exchange

    async def commit(
        self, event: Mapping[str, Any], changes: Sequence[Change], extra: Mapping[str, Any], *, answered: bool = False
    ) -> str:
        """
        Make state items durable now; see :meth:`.Dispatches.commit`.

        :param answered: whether the request was answered already, so that nothing more is sent to its caller.
        :return: the Audit-ID of the record that tells of it.
        """
        wanted = self._exchange.context.get("stream") is True and not answered
        return await self._dispatcher.commit(self._exchange, event, changes, extra, self._interim if wanted else None)

    async def withdraw(self, refusal: Refusal, changes: Sequence[Change], extra: Mapping[str, Any]) -> str:
        """Withdraw a request that was answered before; see :meth:`.Dispatches.withdraw`."""
        return await self._dispatcher.withdraw(self._exchange, refusal, changes, extra)

    async def delegate(
        self, method: str, path: str, input: Mapping[str, Any], lineage: Lineage, session_id: str
    ) -> Response:
        """
        Call an endpoint under a delegation: with the granted scopes only, in a separate session.

        :param path: at the delegatee, ``/agents/NAME/...``.
        """
        exchange = self._exchange
        place = self._inner_calls().enter(method)
        peer = _inner(exchange, delegation=lineage, approved="")
        kept = OF_PURCHASE if method == "PURCHASE" else ()
        request = self._request(method, path, input, lineage.scope, session_id, kept)
        response = await self._dispatcher.dispatch(request, peer, None, place)
        self._note(response)
        return response

    def _request(
        self,
        method: str,
        path: str,
        input: Mapping[str, Any],
        scope: frozenset[str] | None = None,
        session_id: str | None = None,
        kept: Sequence[str] = (),
        *,
        stream: bool = False,
        key: str = "",
        alone: bool = False,
    ) -> Request:
        """Build the request of an inner call. :param alone: whether its peer is used for no other call."""
        exchange = self._exchange
        usual = scope is None and session_id is None and not kept and not key
        if usual and not alone and exchange.call.trace is None:
            return self._head(method, path).request(input, stream=stream)
        fields = self._fields(scope, session_id)
        if key:
            fields.append(("Idempotency-Key", key))
        if exchange.call.trace is not None:
            fields.extend(exchange.call.trace.fields)
        for name in kept:
            bound = exchange.request.headers.get(name.lower())
            if bound is not None:
                fields.append((name, bound))
        return inner_request(method, self._path_at_agent(path), input, Headers(fields), stream=stream)

    def _head(self, method: str, path: str) -> _Head:
        """Return the head of such a call; from the second on, calls of one kind share it, as on a connection."""
        head = self._heads.get((method, path))
        if head is not None:
            if head.headers.common is None and self._inside is not None:
                head.headers.common = Common()
            return head
        if self._usual is None:
            self._usual = Headers(self._fields(None, None))
            self._lasting = tuple(each for each in self._usual.fields if each[0].lower() not in PER_CALL)
        headers = Headers.from_index(self._usual.fields, self._usual.by_name)
        head = _Head(method, self._path_at_agent(path), headers)
        if self._inside is not None:
            head = self._inside.like(head, self._lasting)
        if len(self._heads) < MOST_HEADS:
            self._heads[method, path] = head
        return head

    def _fields(self, scope: frozenset[str] | None, session_id: str | None) -> list[tuple[str, str]]:
        """Return the header fields of an inner call: principal, scopes, task and session."""
        exchange = self._exchange
        fields = [("Content-Type", media_types.AGTP_JSON)]
        if exchange.caller is not None:
            fields.append(("Agent-ID", exchange.caller.agent_id))
            fields.append(("Authority-Scope", scopes.render(exchange.scopes if scope is None else scope)))
        for name, value in (("Task-ID", exchange.task_id), ("Session-ID", session_id or exchange.session_id)):
            if value is not None:
                fields.append((name, value))
        # What bounds the request bounds what is done in its course.
        given = exchange.request.headers.by_name
        fields.extend((name, given[lowered]) for name, lowered in _BOUNDS if lowered in given)
        return fields

    def _path_at_agent(self, path: str) -> str:
        """Return the path at the agent that the present request addresses by its own path, if it does."""
        exchange = self._exchange
        own = path == "/agents" or path.startswith("/agents/")
        if own or exchange.agent is None or not exchange.request.path.startswith("/agents/"):
            return path
        return f"/agents/{exchange.agent.name}{path}"


def _inner(exchange: Exchange, **more: Any) -> Peer:
    """Return the peer of calls in the course of a request: its caller, from inside this host."""
    return replace(
        exchange.peer,
        transport=INTERNAL,
        http=None,
        stream=False,
        forwarded={},
        depth=exchange.peer.depth + 1,
        greeted=True,
        acting_principal=exchange.acting_principal,
        follow=None,
        **more,
    )


class _Head:
    """The head of a request of this host to itself."""

    __slots__ = ("headers", "line", "method", "path", "query")

    def __init__(self, method: str, path: str, headers: Headers) -> None:
        self.method, self.headers = method, headers
        self.path, _, query = path.partition("?")
        self.query = query or None
        self.line = f"AGTP/1.0 {method} {self.path}{'?' + query if query else ''}\r\n".encode("ascii")

    def request(self, input: Mapping[str, Any], *, stream: bool) -> Request:
        """Return a request with these parameters."""
        said = {"method": self.method, "parameters": dict(input)}
        body = jsontext.encode({**said, "context": {"stream": True}} if stream else said)
        return Request(
            method=self.method, path=self.path, query=self.query, headers=self.headers, body=body, line=self.line
        )


class _Inside:
    """
    The latest kinds of calls that were made in the course of one peer's requests.

    What gates found of one of them holds for the next of its kind, on the same conditions as on a connection
    (:mod:`agtphost.dispatch.gate_cache`): also where another request makes it.

    :param peer: their caller, without a grant, approval or principal.
    """

    __slots__ = ("_heads", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._heads: dict[tuple[bytes, Fields], _Head] = {}

    def like(self, head: _Head, lasting: Fields) -> _Head:
        """
        Return a head that shares with earlier ones of the same kind the values that were computed for them.

        :param lasting: its fields but for those that name one call.
        """
        kind = head.line, lasting
        known = self._heads.get(kind)
        if known is None:
            if len(self._heads) >= MOST_KINDS:
                del self._heads[next(iter(self._heads))]
            self._heads[kind] = head
            return head
        if known.headers.common is None:
            known.headers.common = Common()
        head.headers.common = known.headers.common
        head.method, head.path = known.method, known.path
        return head


def inner_request(
    method: str, path: str, input: Mapping[str, Any], headers: Headers, *, stream: bool = False
) -> Request:
    """
    Return the request of an inner call, which this host makes in a caller's name.

    :param headers: of content type JSON.
    """
    return _Head(method, path, headers).request(input, stream=stream)
