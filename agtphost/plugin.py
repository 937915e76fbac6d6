"""
Everything that a package imports which extends a host.

This module is provisional until release 0.3: a name may change in 0.2.x, and the changelog then says what to write
instead. ``docs/extending`` has a page with an example for each kind of plugin.

- :class:`IHandler` answers an endpoint: it gets an :class:`EndpointContext` and returns a mapping or an
  :class:`EndpointResponse`, or raises :class:`EndpointError`.
- :class:`IOperatorGate` refuses calls: it gets a :class:`CallView` and raises :class:`Refusal`, whose reason is a
  :class:`ForeignReason`.
- :class:`IPayloadAdapter` carries the payloads of another framework on EXECUTE: it makes a :class:`Binding` of each
  tool, whose schema comes from :func:`compile_schema`, and a :class:`Resolution` of each call.
- :class:`IRecordObserver` sees each committed record as an :class:`ObservedRecord`.
- :class:`IWitness` remembers a :class:`Checkpoint`; :func:`read_checkpoint` reads its text.
- :class:`IPluggableStore` keeps records, as the rows below; :class:`MemoryStore` is one to begin with.
- :class:`IFeature` makes a :class:`Contribution` from :class:`Services`: methods, INSPECT targets, gates, services and
  an HTTP resource. A method is answered by an :class:`IBuiltInHandler`, which gets a :class:`BuiltInContext`; a gate is
  a :class:`PlacedGate`, a resource that of a :class:`ServedSurface`.

An entry point of the group ``agtphost.features`` names a factory of features, which takes nothing. For all others, one
of the group ``agtphost.plugins`` names a factory, which takes the settings of the place that names it. Its attribute
``settings_schema``, a JSON schema or a dataclass, has the host check them first; with a dataclass, the factory is
called with an instance of it.
"""

from __future__ import annotations

from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.checkpoint import read as read_checkpoint
from agtphost.audit.drafts import StoredRecord
from agtphost.audit.observed_records import ObservedRecord
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.schemas import CompiledSchema, SchemaError, compile_schema
from agtphost.dispatch.call_view import CallView
from agtphost.errors import Refusal
from agtphost.features import Contribution, IFeature, PlacedGate, Services
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.handlers.interface import IHandler
from agtphost.http.served_surface import ServedSurface
from agtphost.iagtp import IOperatorGate, IPayloadAdapter, IRecordObserver, IWitness
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.stores import LatestRecords, MemoryStore, Search, Selection, StoreError
from agtphost.stores.interfaces import IPluggableStore, IRecordReader
from agtphost.stores.record_search import CountedBy, RecordCounts
from agtphost.stores.record_summary import RecordSummary
from agtphost.stores.rows import (
    AnswerRow,
    CheckpointRow,
    DamagedRecord,
    Facet,
    HeadRow,
    ItemRow,
    KeyedRow,
    RecordFormat,
    RecordKind,
    RecordRow,
    ReservationRow,
    SignedRow,
    StateChangeRow,
    StateRow,
)
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status

__all__ = [
    "Agent",
    "Answer",
    "AnswerRow",
    "Assurance",
    "Binding",
    "BuiltInContext",
    "CallView",
    "Checkpoint",
    "CheckpointError",
    "CheckpointRow",
    "CompiledSchema",
    "Config",
    "ConfigFault",
    "Contribution",
    "CountedBy",
    "DamagedRecord",
    "EndpointContext",
    "EndpointError",
    "EndpointResponse",
    "Facet",
    "ForeignReason",
    "HeadRow",
    "IBuiltInHandler",
    "IFeature",
    "IHandler",
    "IOperatorGate",
    "IPayloadAdapter",
    "IPluggableStore",
    "IRecordObserver",
    "IRecordReader",
    "IWitness",
    "ItemRow",
    "KeyedRow",
    "LatestRecords",
    "MemoryStore",
    "ObservedRecord",
    "PlacedGate",
    "RecordCounts",
    "RecordFormat",
    "RecordKind",
    "RecordRow",
    "RecordSummary",
    "Refusal",
    "ReservationRow",
    "Resolution",
    "SchemaError",
    "Search",
    "Selection",
    "ServedSurface",
    "Services",
    "SignedRow",
    "StateChangeRow",
    "StateRow",
    "Status",
    "StoreError",
    "StoredRecord",
    "compile_schema",
    "read_checkpoint",
]
