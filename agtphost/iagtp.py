"""
Every interface of agtphost, and what each does not promise.

``async`` methods return an awaitable; implementations may return a coroutine
or a Deferred.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from zope.interface import Attribute, Interface

from agtphost.audit.drafts import Change, StreamEvent
from agtphost.audit.interfaces import ILedger as ILedger
from agtphost.audit.interfaces import IRecordObserver as IRecordObserver
from agtphost.audit.interfaces import IRemoteWitness as IRemoteWitness
from agtphost.audit.interfaces import IWitness as IWitness
from agtphost.contract.interfaces import IPayloadAdapter as IPayloadAdapter
from agtphost.contract.interfaces import IToolAddresses as IToolAddresses
from agtphost.dispatch.interfaces import Condition as Condition
from agtphost.dispatch.interfaces import ICacheableGate as ICacheableGate
from agtphost.dispatch.interfaces import IContractResolver as IContractResolver
from agtphost.dispatch.interfaces import IDispatcher as IDispatcher
from agtphost.dispatch.interfaces import IGate as IGate
from agtphost.dispatch.interfaces import IOperatorGate as IOperatorGate
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.handlers.interface import IHandler as IHandler
from agtphost.identity.directory import IAgentDirectory as IAgentDirectory
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
