"""
Every interface of agtphost, and what each does not promise.

``async`` methods return an awaitable; implementations may return a coroutine
or a Deferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from agtphost.audit.checkpoint import Checkpoint
    from agtphost.audit.drafts import Change, Draft, Reservation, ReservationKey, Sealed, StoredRecord, StreamEvent
    from agtphost.contract.binding import Binding, Resolution
    from agtphost.contract.table import Match
    from agtphost.dispatch.exchange import Exchange
    from agtphost.handlers.context import EndpointContext, EndpointResponse
    from agtphost.identity.agents import Agent
    from agtphost.identity.peer import Peer
    from agtphost.stores.rows import CheckpointRow, HeadRow, HeldRow, KeyedRow, RecordRow, ReservationRow, StateRow
    from agtphost.wire.events import Request, Response


class IDispatcher(Interface):
    """
    The one way in and the one way out.

    Never raises: whatever happens becomes a sealed response. Does not promise
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

    def refuse(reason: str, explanation: str, status: int, peer: Peer, line: bytes = b"") -> Awaitable[Response]:
        """Seal the one response to octets that never became a request; the connection closes after it."""


class IGate(Interface):
    """One admission check. Small, ordered by data, with no effect but its verdict and what it proved."""

    name = Attribute("str: the gate's name in logs, explanations and the order test")

    def check(exchange: Exchange) -> Awaitable[None] | None:
        """
        Let the exchange pass, adding to it what was proven.

        :raises agtphost.errors.Refusal: to end it.
        :return: None, or an awaitable of None where the gate has to wait.
        """


class IHandler(Interface):
    """What answers a binding once every gate let the exchange pass."""

    kind = Attribute("str: registered_function, composition, external_service or built_in")

    def handle(context: EndpointContext) -> Any:
        """
        Do the work.

        :return: an EndpointResponse, a mapping (the result), or an awaitable of either.
        :raises agtphost.EndpointError: for an error that the endpoint declares.
        :raises agtphost.errors.Refusal: for any other specified status.
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
        """Every tool that can be called now, as the binding that :meth:`resolve` would return, by name."""

    def hosted() -> Sequence[Mapping[str, object]]:
        """``hosted_protocols`` entries of the manifest (AGTP-API section 8.6), with the state of each upstream."""


class ILedger(Interface):
    """
    Seals and stores records; the only writer of chains.

    Promises that a Sealed it returns is on disk. Does not promise order
    between drafts submitted to different chains.
    """

    healthy = Attribute("bool: False from the first failed commit until a later one succeeds")
    low = Attribute("bool: whether it is not healthy for want of space alone, and takes what is vital")

    def submit(draft: Draft) -> Awaitable[Sealed]:
        """
        Sign, link and store one record in the next group commit.

        :raises agtphost.audit.drafts.LedgerUnavailable: nothing was stored, or nobody can tell.
        :raises agtphost.audit.drafts.StaleLifecycle: the agent's state is no longer the one expected.
        :raises agtphost.audit.drafts.StaleChange: a held item is no longer of the version expected.
        """

    def submit_undurable(draft: Draft) -> Sealed:
        """Sign a record marked ``durable: false``, outside every chain, for the answer that says the store is down."""

    def reserve(key: ReservationKey, digest: bytes) -> Awaitable[Reservation]:
        """Durably note that a keyed request is about to run, or report what is known of it."""


class IChainStore(Interface):
    """
    The writing side of a store: for one thread at a time, and blocking.

    What happens between :meth:`begin` and :meth:`commit` becomes true
    together and durably, or not at all. Identifiers are octets; rows are
    those of :mod:`agtphost.stores.rows`. Any exception means that the
    transaction did not happen, except one from :meth:`commit`, which
    leaves that open until :meth:`holds` answers.
    """

    def begin() -> bool:
        """Open a transaction that excludes every other writer; True if another one wrote since the last."""

    def commit() -> None:
        """Make the transaction durable."""

    def rollback() -> None:
        """Forget the transaction, if there is one."""

    def heads() -> dict[str, HeadRow]:
        """The newest record of every chain, its hash checked."""

    def damage() -> Sequence[str]:
        """What is wrong with the newest records and with some others, a line each; no slower with more of them."""

    def chain_number(chain: str) -> int:
        """The number of a chain, made up in this transaction if it is new."""

    def last_number() -> int:
        """The number of the newest record of all chains; 0 where there is none."""

    def append(records: Sequence[RecordRow]) -> None:
        """Add records; refuses a second use of a place in a chain."""

    def lifecycle_states() -> dict[str, StateRow]:
        """The state of every agent that has one."""

    def lifecycle_status(agent_id: str) -> str | None:
        """The status of one agent, as this transaction has it."""

    def set_lifecycle(agent_id: str, state: StateRow) -> None:
        """Change one agent's state."""

    def reservations(names: Sequence[bytes]) -> dict[bytes, ReservationRow]:
        """Those of the named reservations that exist."""

    def put_reservations(rows: Sequence[ReservationRow]) -> None:
        """Add reservations, or replace those of the same name."""

    def put_results(results: Sequence[tuple[bytes, bytes]]) -> None:
        """Answer reservations: (name, result)."""

    def held() -> Sequence[HeldRow]:
        """Every held item."""

    def held_version(kind: str, key: str, now: int) -> int:
        """The version of a held item as this transaction has it; 0 where it is absent, or has expired by ``now``."""

    def put_held(row: HeldRow) -> None:
        """Add or replace a held item; remove it where its value is None."""

    def audit_ids(after: int, limit: int) -> Sequence[bytes]:
        """Audit-IDs of the records numbered ``after + 1`` and on."""

    def tile(level: int, number: int) -> bytes:
        """The hashes of a tile of the tree; empty where there is none."""

    def put_tiles(tiles: Mapping[tuple[int, int], bytes]) -> None:
        """Add or replace tiles, by level and number."""

    def checkpoint() -> CheckpointRow | None:
        """The newest checkpoint."""

    def put_checkpoint(row: CheckpointRow) -> None:
        """Add a checkpoint."""

    def holds(audit_id: bytes) -> bool:
        """Whether a record is stored."""

    def free_space() -> int:
        """Octets left where the store grows."""

    def probe() -> None:
        """Commit a write of a size that fails while the store is full."""

    def keyed(owners: Iterable[bytes]) -> dict[bytes, KeyedRow]:
        """What the keyed requests of those of the owners take that have any."""

    def put_keyed(rows: Iterable[KeyedRow]) -> None:
        """The same, as it is from this transaction on."""

    def forget(expired_before: int, running: Iterable[bytes], now: int) -> bool:
        """
        Drop what has expired, of so much as is done in one moment, in a transaction of its own.

        :param expired_before: reservations made before it go, but none that is ``running``.
        :param now: held items that have expired by then go.
        :return: whether there may be more.
        """

    def tidy() -> None:
        """Idle work: fold the log into the database."""

    def reopen() -> None:
        """Begin afresh after a failure; whatever was not committed is gone."""

    def close() -> None:
        """Let go of the store."""


class IWitness(Interface):
    """Remembers the last checkpoint somewhere that is not the store."""

    name = Attribute("str: what it is called in messages")
    always = Attribute("bool: whether it must have seen something wherever the store has a checkpoint")
    remedy = Attribute("str: what an operator does who goes on knowingly with a store that contradicts it")

    def last() -> Checkpoint | None:
        """
        The last checkpoint it saw; None where it saw none.

        :raises agtphost.stores.StoreError: what it has cannot be read or believed.
        """

    def saw(issued: Checkpoint) -> None:
        """
        Take note of a checkpoint that the store has durably.

        :raises OSError: it could not.
        """


class INegotiator(Interface):
    """
    Runtime negotiation of contracts: AGTP-API section 10.

    The gates ask it about requests, built-in methods about everything else.
    What it decides becomes true with the record of the response; it never
    waits, and never changes anything by itself.
    """

    def presented(exchange: Exchange) -> Callable[[str, str], Match | None] | None:
        """
        What a request that presents a contract may be answered with, by method and path.

        :return: None for a request that presents none.
        :raises agtphost.errors.Refusal: 404 or 464 (AGTP-API section 10.1.4).
        """

    def unregistered(exchange: Exchange) -> Match | None:
        """
        What a request may be answered with that nothing is registered for: a contract of the caller's, or a new one.

        :return: None: 404 or 405, as if nobody negotiated here.
        :raises agtphost.errors.Refusal: where the caller opted in and a lock is closed (AGTP-API section 10.1.2).
        """

    def propose(context: EndpointContext) -> EndpointResponse:
        """PROPOSE: 261 or 263; everything else is a refusal."""

    def proposal(context: EndpointContext) -> EndpointResponse:
        """``QUERY /proposals/{proposal_id}``."""

    def proposals(context: EndpointContext) -> EndpointResponse:
        """``QUERY /proposals``: what waits for a decision."""

    def decide(context: EndpointContext) -> EndpointResponse:
        """``CONFIRM /proposals/{proposal_id}``: an operator's decision."""

    def patterns(context: EndpointContext) -> Mapping[str, Any]:
        """The document of DISCOVER /patterns."""

    def contracts(context: EndpointContext) -> Sequence[Mapping[str, Any]]:
        """The document of DISCOVER /contracts."""

    def persistent() -> Sequence[Mapping[str, Any]]:
        """Definitions of persistent contracts in force."""

    def contract(context: EndpointContext) -> Awaitable[Mapping[str, Any]]:
        """``INSPECT target=contract``."""

    def attempt(context: EndpointContext) -> Awaitable[Mapping[str, Any]]:
        """``INSPECT target=rcns-attempt``."""

    def release_contract(context: EndpointContext) -> EndpointResponse:
        """``SUSPEND synthesis_id=...``."""

    def revoke_contract(context: EndpointContext) -> EndpointResponse:
        """``REVOKE target=contract``."""

    def sweep(context: EndpointContext) -> EndpointResponse:
        """``REVOKE target=stale-contracts``."""

    def end_with_agent(agent_id: str) -> tuple[tuple[Change, ...], tuple[StreamEvent, ...]]:
        """What is committed together with an agent's revocation."""


class IRecordStore(Interface):
    """Reads what the ledger wrote. Never blocks the reactor; never writes."""

    def record(audit_id: str) -> Awaitable[StoredRecord | None]:
        """The record of that Audit-ID, its hash checked."""

    def head(chain: str) -> Awaitable[StoredRecord | None]:
        """The newest record of a chain; ``""`` is the host's own."""

    def walk(chain: str, before_seq: int | None, limit: int) -> Awaitable[Sequence[StoredRecord]]:
        """Records of a chain, newest first, those before ``before_seq`` where given."""

    def lifecycle(agent_id: str, limit: int) -> Awaitable[Sequence[StoredRecord]]:
        """Lifecycle events of an agent, newest first."""

    def number_of(audit_id: str) -> Awaitable[int | None]:
        """The place of a record among all records, counted from 1; None where it is not stored."""

    def checkpoint() -> Awaitable[CheckpointRow | None]:
        """The newest checkpoint of the tree over all records."""

    def proven(prove: Callable[[Callable[[int, int], bytes]], Any]) -> Awaitable[Any]:
        """What ``prove`` returns, called off the reactor with what reads the tiles of that tree."""


class IAgentDirectory(Interface):
    """The agents this host knows: those it hosts, and those it admits as callers."""

    only: Agent | None = Attribute("The only hosted agent; None where there are more, or none.")

    def by_id(agent_id: str) -> Agent | None:
        """The agent of that Agent-ID."""

    def by_name(name: str) -> Agent | None:
        """The hosted agent of that label."""

    def hosted() -> Sequence[Agent]:
        """Hosted agents in label order."""
