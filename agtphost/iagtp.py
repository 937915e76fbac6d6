"""
Every interface of agtphost, and what each does not promise.

``async`` methods return an awaitable; implementations may return a coroutine
or a Deferred.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from zope.interface import Attribute, Interface

from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import Change, Draft, Reservation, ReservationKey, Sealed, StreamEvent
from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import ToolAddress
from agtphost.contract.endpoint_table import Match
from agtphost.dispatch.call_view import CallView
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.interface import IHandler as IHandler
from agtphost.identity.directory import IAgentDirectory as IAgentDirectory
from agtphost.identity.peer import Peer
from agtphost.stores.interfaces import IChainStore as IChainStore
from agtphost.stores.interfaces import IPluggableStore as IPluggableStore
from agtphost.stores.interfaces import IRecordReader as IRecordReader
from agtphost.stores.record_search import CountedBy as CountedBy
from agtphost.stores.record_search import LatestRecords as LatestRecords
from agtphost.stores.record_search import Search as Search
from agtphost.stores.record_search import is_operator_read as is_operator_read
from agtphost.stores.record_store import IRecordStore as IRecordStore
from agtphost.stores.record_summary import RecordSummary as RecordSummary
from agtphost.stores.rows import Facet as Facet
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Request, Response


class IRecordObserver(Interface):
    """
    Sees every record that was committed, once it is on disk: for an index, a metric, a copy elsewhere.

    An extension point: ``[[observer]]``, see ``docs/extending/observer.rst``. It is called in the order of commits,
    after the caller has its answer, and can change nothing. One that is slow misses records; all are in the store.
    """

    def saw(record: ObservedRecord) -> Awaitable[None] | None:
        """
        Take note of a record.

        :return: None, or a Deferred or coroutine; the next record comes when it has ended.
        """


class IDispatcher(Interface):
    """
    The one way in and the one way out.

    Never raises: every outcome becomes a sealed response. Does not promise
    that the response differs from the one an identical request got before.
    """

    def dispatch(
        request: Request, peer: Peer, interim: Callable[[Response], None] | None = None
    ) -> Awaitable[Response]:
        """
        Answer one request.

        :param interim: takes sealed interim messages (status 202 with a
            Continuation-Token) in order, before the final response; None
            where the transport cannot carry them.
        :return: the sealed final response.
        """

    def refuse(reason: Reason, explanation: str, peer: Peer, line: bytes = b"") -> Awaitable[Response]:
        """Seal the one response to octets that never became a request; the connection closes after it."""

    def turn_away(request: Request, refusal: Refusal, peer: Peer) -> Awaitable[Response]:
        """
        Seal the refusal of a request that a front of this host turns away by its head: no gate sees it.

        :param request: its method and path, what it was read from, and whom it names.
        :return: the sealed response; 429 for an address that asks too much.
        """


class IGate(Interface):
    """An admission check. Small, ordered by data, with no effect but its verdict and what it proved."""

    name = Attribute("str: the gate's name in logs, explanations and the order test")

    def check(exchange: Exchange) -> Awaitable[None] | None:
        """
        Let the exchange pass, adding to it what was proven.

        :raises agtphost.errors.Refusal: to end it.
        :return: None, or an awaitable of None where the gate has to wait.
        """


Condition = Callable[[Exchange], bool]
"""Whether what a gate found of another request of the same kind holds of this one; without effect."""


class ICacheableGate(IGate):
    """A gate that can say for how long its verdict holds: see :mod:`agtphost.dispatch.gate_cache`."""

    def conditions(exchange: Exchange) -> Sequence[Condition] | None:
        """
        Return the conditions under which later requests of the same kind pass this gate unchecked.

        Such requests have the same peer and first line, and their fields differ in identifiers of single calls only
        (:data:`agtphost.wire.heads.PER_CALL`). Of gates after the body only the verdict is kept.

        :param exchange: as it passed this gate.
        :return: the conditions; empty if the verdict always holds; None if every request has to be checked. After None
            from a gate before the body, all gates check each request.
        """


class IOperatorGate(Interface):
    """
    A check of the operator's own. It can refuse a call, and admits nothing that another gate refuses.

    An extension point: ``[[gate]]``, see ``docs/extending/gate.rst``.
    """

    name = Attribute("str: the gate's name in logs and explanations, where ``operator:`` precedes it")

    def check(call: CallView) -> Awaitable[None] | None:
        """
        Let the call pass, or refuse it. This runs in the reactor's thread and must not block.

        :raises agtphost.errors.Refusal: to end the call.
        :return: None, or a Deferred or coroutine of None where the gate has to wait.
        """


class IPayloadAdapter(Interface):
    """
    Carries one framework's payloads on EXECUTE: core v08 sections 7.2.8 and 8.

    Never checks authority itself: it says what an action needs, and the gates decide.
    """

    name = Attribute("str: short lower-case name, such as mcp")
    payload_types = Attribute("frozenset[str]: the payload_type values it carries")

    def resolve(action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find what an EXECUTE names.

        :param action: ``parameters.action``.
        :param payload: ``parameters.payload``, decoded.
        :param server: the upstream named by the path ``/mcp/<server>``; None where the path was ``/``.
        :raises agtphost.errors.Refusal: 422, 404 or 409 for what does not exist or is ambiguous.
        """

    def tools() -> Iterable[Binding]:
        """Return every tool that can be called now, as the binding that :meth:`resolve` would return, by name."""

    def call_of(binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return the parameters of the EXECUTE that calls a tool, for lists, plans and exported documents.

        The arguments are the payload, some members of the payload, or one member of it; their values are copied
        unchanged.

        :param binding: one of :meth:`tools`.
        :return: ``action``, ``payload_type`` and ``payload``, such that :meth:`resolve` finds the binding.
        """

    def hosted_protocols() -> Sequence[Mapping[str, object]]:
        """
        Return ``hosted_protocols`` entries of the manifest (AGTP-API section 8.6), with the state of each upstream.
        """


class IToolAddresses(Interface):
    """Says where the tools of its upstreams are called: what the host's own payload adapters provide besides."""

    def address_of(upstream: str, tool: str) -> ToolAddress | None:
        """
        Say where a tool is called that a path such as ``/tools/files/read_file`` names.

        It says nothing of whether there is such a tool, or for whom: :meth:`IPayloadAdapter.resolve` and the gates do.

        :param upstream: the upstream's name.
        :param tool: the tool's name there.
        :return: None where the adapter has no upstream of that name.
        """


class ILedger(Interface):
    """
    Seals and stores records; the only writer of chains.

    Promises that a Sealed it returns is on disk. Does not promise order
    between drafts submitted to different chains.
    """

    healthy = Attribute("bool: False from the first failed commit until a later one succeeds")
    low = Attribute("bool: whether it is not healthy for want of space alone, and takes what is vital")
    door = Attribute("Door: where calls wait while what another process wrote is taken over in more than one turn")

    def look() -> None:
        """
        Update :attr:`healthy`, whether a record can be kept now, if the disk was not checked for a moment.

        The gates call it before each handler; it does not wait.
        """

    def submit(draft: Draft) -> Awaitable[Sealed]:
        """
        Sign, link and store one record in the next group commit.

        :raises agtphost.audit.drafts.LedgerUnavailable: nothing was stored, or that is unknown.
        :raises agtphost.audit.drafts.StaleLifecycle: the agent's state is not the expected one any more.
        :raises agtphost.audit.drafts.StaleChange: a state item does not have the expected version any more.
        """

    def submit_undurable(draft: Draft) -> Sealed:
        """Sign a record marked ``durable: false``, outside every chain, for the answer that says the store is down."""

    def reserve(key: ReservationKey, digest: bytes) -> Awaitable[Reservation]:
        """Durably note that a keyed request is about to run, or report what is known of it."""

    def when_stopped(ending: Callable[[str], Sequence[Change]]) -> None:
        """
        Have state items change in the transaction that stops an agent.

        :param ending: called with the Agent-ID when an event that stops the agent is submitted; returns the changes.
        """

    def watch(watcher: Callable[[ObservedGroup], object]) -> None:
        """
        Call a watcher for every group once it is on disk, and for each record that is signed outside every chain.

        It is called in the reactor's thread, after the callers that wait for the records, and must not wait itself. One
        that raises is dropped, and logged. It is not called for a group that failed.
        """

    def unwatch(watcher: Callable[[ObservedGroup], object]) -> None:
        """Stop calling a watcher; an unknown one is ignored."""


class IWitness(Interface):
    """Remembers the last checkpoint somewhere that is not the store."""

    name = Attribute("str: what it is called in messages")
    always = Attribute("bool: whether it must have seen something wherever the store has a checkpoint")
    remedy = Attribute("str: what an operator does who goes on knowingly with a store that contradicts it")

    def last() -> Checkpoint | None:
        """
        Return the last checkpoint it saw; None where it saw none.

        :raises agtphost.stores.StoreError: what it has cannot be read or believed.
        """

    def saw(issued: Checkpoint) -> None:
        """
        Take note of a checkpoint that the store has durably.

        :raises OSError: it could not.
        """


class IContractResolver(Interface):
    """The part of negotiation that the gates ask about a request that a contract may answer (AGTP-API section 10.1)."""

    def find_presented(exchange: Exchange) -> Callable[[str, str], Match | None] | None:
        """
        Return what answers a request that presents a contract, by method and path.

        :return: None for a request that presents none.
        :raises agtphost.errors.Refusal: 404 or 464 (AGTP-API section 10.1.4).
        """

    def find_unregistered(exchange: Exchange, claims: Callable[[Exchange], None]) -> Match | None:
        """
        Return what answers a request for an unregistered endpoint: a contract of the caller's, or a new one.

        :param claims: computes the effective scopes, which no gate has done by then.
        :return: None: 404 or 405, as on a host without negotiation.
        :raises agtphost.errors.Refusal: where the caller opted in and a lock is closed (AGTP-API section 10.1.2).
        """


class IProposals(Interface):
    """PROPOSE, and what becomes of proposals: for built-in methods."""

    def propose(context: BuiltInContext) -> Answer:
        """Answer a PROPOSE with 261 or 263; everything else is a refusal."""

    def proposal(context: BuiltInContext) -> Answer:
        """Answer ``QUERY /proposals/{proposal_id}``."""

    def proposals(context: BuiltInContext) -> Answer:
        """Answer ``QUERY /proposals``: the proposals that wait for a decision."""

    def decide(context: BuiltInContext) -> Answer:
        """Answer ``CONFIRM /proposals/{proposal_id}``: an operator's decision."""


class IContractDocuments(Interface):
    """The documents of negotiation for DISCOVER and INSPECT."""

    def patterns(context: BuiltInContext) -> Mapping[str, Any]:
        """Return the document of DISCOVER /patterns."""

    def contracts(context: BuiltInContext) -> Sequence[Mapping[str, Any]]:
        """Return the document of DISCOVER /contracts."""

    def persistent() -> Sequence[Mapping[str, Any]]:
        """Definitions of persistent contracts in force."""

    def contract(context: BuiltInContext) -> Awaitable[Mapping[str, Any]]:
        """Return the document of ``INSPECT target=contract``."""

    def attempt(context: BuiltInContext) -> Awaitable[Mapping[str, Any]]:
        """Return the document of ``INSPECT target=rcns-attempt``."""


class IContractEnding(Interface):
    """The ways to end contracts before their time; each returns what is committed with an answer."""

    def release_contract(context: BuiltInContext) -> Answer:
        """Answer ``SUSPEND synthesis_id=...``."""

    def revoke_contract(context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=contract``."""

    def sweep(context: BuiltInContext) -> Answer:
        """Answer ``REVOKE target=stale-contracts``."""

    def end_with_agent(agent_id: str) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """Return what is committed together with an agent's revocation."""


class INegotiator(IContractResolver, IProposals, IContractDocuments, IContractEnding):
    """
    Runtime negotiation of contracts, whole: AGTP-API section 10.

    Its decisions are committed with the record of the response; it never waits, and never changes anything on its own.
    """


class IEmbedder(Interface):
    """
    Turns texts into vectors, so that texts of one meaning are near each other.

    Never waits in the reactor's thread. May be unavailable: a search continues without it where it fails.
    """

    engine = Attribute("str: its kind, as answers tell it: static, onnx or http")
    name = Attribute("str: another one whenever its vectors are others: kind, model and what tells versions apart")
    dimensions = Attribute("int: numbers of a vector; 0 while that is not known")

    def embed(texts: Sequence[str]) -> Awaitable[Sequence[bytes]]:
        """
        Return the vectors of some texts, in their order.

        :return: each of :attr:`dimensions` 32-bit floats, little-endian, and of length 1, or of none where the text
            says nothing to the model.
        :raises agtphost.search.engine.EmbedderError: it cannot, for now; the message says why in a sentence.
        """

    def close() -> None:
        """Let go of what is kept for further texts, such as connections; what is under way ends as it would."""
