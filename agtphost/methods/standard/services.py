"""What the standard methods are made of: one value, from which each family of them takes what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import Match
from agtphost.contract.recipes.book import RecipeBook
from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.sessions import SessionRegistry, Suspensions
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter, IRecordStore
from agtphost.identity.keys import SigningKey
from agtphost.methods.cognitive.documents import Library
from agtphost.methods.continuation import Continuations
from agtphost.methods.discovery.candidates import Candidates
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.inspection.access import RecordAccess
from agtphost.methods.oversight.confirmation import Confirmation
from agtphost.methods.oversight.notification import Notification
from agtphost.methods.standard.collections.store import Collections
from agtphost.methods.standard.orchestration.monitors import Monitors
from agtphost.methods.standard.orchestration.workflows import Workflows
from agtphost.search.engine import SearchEngine
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.own_address import OwnAddress
from agtphost.vocabulary.steps import Executor

if TYPE_CHECKING:
    from agtphost.audit.ledger import Ledger
    from agtphost.audit.lifecycle import LifecycleState
    from agtphost.identity.agents import Agent


@dataclass(frozen=True, kw_only=True)
class MethodServices:
    """Everything of one configuration of a host that a standard method may need."""

    config: Config
    server_id: str
    """The host's own name."""

    address: OwnAddress
    """The names and the port that the host's own ``agtp:`` URIs have."""

    catalog: Catalog
    reactor: Any
    now: Callable[[], float]
    """Seconds since the Unix epoch."""

    offload: Executor
    """Calls a function off the reactor."""

    # What there is

    directory: IAgentDirectory
    states: Callable[[Agent], LifecycleState]
    """The present lifecycle state of an agent."""

    visibility: Visibility
    """Which hosted agents a caller is shown."""

    listed: Callable[[], Iterable[Binding]]
    """Everything that can be called; read at every call."""

    find: Callable[[str, str], Match | None]
    """What a method on a path is bound to."""

    adapters: Sequence[IPayloadAdapter]
    """MCP servers, A2A agents and ACP servers."""

    upstreams: Callable[[], Sequence[Mapping[str, object]]]
    """How each of their servers is, by ``name`` and ``state``."""

    witnesses: Callable[[], Mapping[str, float]]
    """For how many seconds a checkpoint waits for each witness."""

    library: Library
    """The documents of ``[query]``."""

    candidates: Candidates
    """Who meets criteria."""

    search: SearchEngine

    # What is kept

    held: StateTable
    records: IRecordStore
    access: RecordAccess
    """Who may read them."""

    ledger: Ledger
    key: SigningKey | None
    """Signs records; None where the host signs nothing."""

    signing_keys: Mapping[str, SigningKey]
    """Keys of principals and organizations, by the names of ``[[methods.signing_key]]``."""

    collections: Collections
    """JSON documents that agents keep here."""

    approvals: Approvals
    sessions: SessionRegistry
    suspensions: Suspensions
    notification: Notification
    """NOTIFY, and the inboxes."""

    workflows: Workflows
    """Chains and schedules on their way."""

    monitors: Monitors
    """The subscriptions, and the notification of their subscribers."""

    recipes: RecipeBook
    """What RUN finds its procedures in."""

    confirmation: Confirmation
    """CONFIRM, which further things can be confirmed by."""

    continuations: Continuations
    authorization: Authorization
    """Who acts for the people."""


Handlers = Callable[[MethodServices], Mapping[str, IBuiltInHandler]]
"""Makes the built-ins of a family, by method."""


class INarrows(Protocol):
    """
    A built-in whose parameters have on this host fewer values than in the draft's table.

    A handler that has ``parameters`` is bound with them in place of the table's: RUN lists its procedures.
    """

    parameters: Mapping[str, Mapping[str, Any]]
