"""
Every table in memory that requests add to, with what bounds it: the register that a test holds the host to.

:data:`CACHES` are kept to spare work, or to remember whom the host has seen; each can be lost, and has numbers, which
``docs/limits.rst`` shows. :data:`TABLES` need no number of their own. A new table of the host gets a line in one of the
two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agtphost.vocabulary.bounds import MIB, Cache
from agtphost.vocabulary.holdings import CLAIMS


def _cache(place: str, says: str, in_all: int, octets: int, **more: object) -> Cache:
    return Cache(place=place, says=says, in_all=in_all, octets=octets, **more)  # type: ignore[arg-type]


_COUNTED: Final = {"lives": "as long as the process", "at_the_cap": "it counts as ``other``"}

CACHES: Final = (
    CLAIMS,
    _cache(
        "dispatch.gates.principal:ActingPrincipalGate._valid",
        "tokens of identity providers that were found good, by hash",
        4_096,
        4 * MIB,
        lives="until the token expires",
        at_the_cap="the oldest goes",
    ),
    _cache(
        "dispatch.gates.limits:Allowances._owed",
        "how often a caller may ask; a table for each class of methods and kind of caller",
        10_000,
        16 * MIB,
        lives="a minute without use is as good as forgotten",
    ),
    _cache(
        "host.observers:_Line._waiting",
        "records that wait for one observer of the operator's own",
        1_000,
        16 * MIB,
        lives="until the observer has seen it",
        at_the_cap="the oldest goes, and the log counts it",
    ),
    *(
        _cache(f"metrics.counting:CallCounts.{table}", f"{what} that metrics tell apart", most, MIB, **_COUNTED)
        for table, what, most in (
            ("_series", "methods, statuses and reasons", 2_000),
            ("latencies", "methods whose latencies", 64),
            ("called", "things that are called", 501),
            ("missing", "scopes that were missing", 501),
            ("callers", "callers, where ``[metrics] agents`` is set,", 200),
        )
    ),
    _cache("dispatch.gates.limits:RateGate._exempt", "addresses that are not counted", 4_096, MIB),
    _cache("identity.certificates:_refused", "certificates that TLS was shown", 1_024, 5 * MIB),
    _cache("protocols.peers:_certificate", "certificates of clients, as they were read", 1_024, 12 * MIB),
    _cache("dispatch.gates.limits:address_origin", "the network of an address", 4_096, MIB),
    _cache("http.exchange:_phrase", "the text beside a status", 1_024, MIB),
    _cache("mcp.streamable:_accepted", "what MCP clients take, as they say it", 256, 8 * MIB),
    _cache("registry.entry:_http_date", "when a card was changed, as HTTP says it", 1_024, MIB),
    _cache("registry.providers:origin_of", "the origin of a card's endpoint", 1_024, 8 * MIB),
    _cache("protocols.admission:origin_of", "the network of an address", 1_024, MIB),
    _cache("identity.kept_forms:_form", "items of the manifest as they are signed", 4_096, 16 * MIB),
    _cache("audit.record_text:_kind", "the text of records with the same members", 512, MIB),
    _cache("identity.jws:_kid_of", "the key that a header names", 64, MIB),
    _cache(
        "search.words:_stem",
        "words of searches without their endings, up to 64 characters",
        20_000,
        8 * MIB,
    ),
    _cache("methods.cognitive.query:words_of", "words of the operator's documents and descriptions", 4_096, 64 * MIB),
    _cache(
        "search.engine:SearchEngine._queries", "what texts that were searched for mean to the embedder", 256, 8 * MIB
    ),
    _cache("methods.discovery.candidates:Known._allowed", "what an authority may find", 64, 8 * MIB),
    _cache("methods.discovery.kept_documents:KeptDocuments._documents", "OpenAPI or AGIS documents", 32, 32 * MIB),
    _cache("methods.discovery.discover:Discovery._lists", "lists of methods by authority", 64, 32 * MIB),
    _cache(
        "methods.discovery.discover:Discovery._warned",
        "who was told of a deprecated form",
        10_000,
        2 * MIB,
        at_the_cap="the oldest goes",
    ),
    _cache(
        "dispatch.sessions:SessionRegistry._sessions",
        "whose a Session-ID is",
        10_000,
        8 * MIB,
        most_of_one=200,
    ),
    _cache("adapters.mcp.calls:CallTracker._levels", "the log level of an agent in a session", 10_000, 4 * MIB),
    _cache(
        "adapters.mcp.request_states:RequestStates._by_token",
        "calls of MCP tools that wait for the caller's input",
        2_000,
        128 * MIB,
        most_of_one=100,
        lives="minutes: ``PATIENCE``",
        at_the_cap="refused: ``too-many-waiting-calls``",
    ),
    _cache(
        "audit.summaries:Summaries._open",
        "refusals, or reads, of one origin that are summed up in one record",
        1_024,
        16 * MIB,
        lives="until the record is written",
        at_the_cap="further origins are summed up together",
    ),
    _cache("negotiation.compiling:Memo._known", "schemas of proposals and contracts, compiled", 64, 64 * MIB),
    _cache("methods.inspection.traffic:Traffic._minutes", "calls of the last hour by the minute", 61, MIB),
    _cache("methods.inspection.traffic:Traffic._seconds", "calls of the last minute by the second", 60, MIB),
    _cache("page.live:Viewings._open", "live feeds of the operators' page", 16, 16 * MIB, lives="five minutes"),
    _cache(
        "registry.finding:FindCards._known",
        "what searches of cards look through, by what callers may call",
        16,
        256 * MIB,
    ),
    _cache("registry.elsewhere:AgentsElsewhere._services", "connections to agents elsewhere", 256, 64 * MIB),
    _cache(
        "registry.generated:HostedCards._made",
        "cards of what is hosted, one for each set of operations that somebody may call",
        4_096,
        16 * MIB,
    ),
    _cache(
        "registry.generated:HostedCards._sets",
        "operations of what is hosted, as cards have them, for each set that somebody may call",
        64,
        128 * MIB,
    ),
    _cache("page.live:Lines._made", "events of live feeds, as they are sent", 200, MIB),
    _cache("page.entrance:Entrance._links", "links to the operators' page", 256, MIB, lives="ten minutes"),
    _cache("page.entrance:Entrance._sessions", "sessions of the operators' page", 64, MIB, lives="``[admin] idle``"),
    _cache("page.entrance:Entrance._failed", "where entries to the operators' page failed", 1_024, MIB),
    _cache("negotiation.rate:Ceiling._seen", "how often an agent proposed in the last minute", 10_000, 16 * MIB),
)

_CONFIGURED = "a few for each thing that the operator configured"
_HOSTED = "one for each agent that this host knows"
_HELD = "an index of state items, which are bounded"
_CALL = "what belongs to one call, and goes with it"
_LINK = "few by its own code, or one for each connection or process that is open, and those are bounded"
_START = "made when the host starts or reloads"
_UNUSED = "not of a running host"

TABLES: Final[Mapping[str, frozenset[str]]] = {
    _CONFIGURED: frozenset(
        {
            "methods.standard.collections.index:Stocks._stocks",
            "search.lexical:Lexicon._words",
            "registry.mcp_servers:McpServers._seen",
            "adapters.a2a.agent:A2AAgent._dialects",
            "adapters.acp.server:ACPServer.changed",
            "adapters.acp.server:ACPServer.manifests",
            "adapters.acp.server:ACPServer.pinned",
            "adapters.mcp.catalogue:Catalogue.bindings",
            "adapters.web_adapter:WebAdapter._bound",
            "adapters.mcp.catalogue:Catalogue.others",
            "adapters.mcp.catalogue:Catalogue.tools",
            "adapters.mcp.resources:Resources._known",
            "adapters.mcp.resources:Resources._until",
            "audit.state:StateTable._tables",
            "audit.state:StateTable._watchers",
            "dispatch.gates.body:_declared",
            "dispatch.scope_dimensions:ScopeDimensionGate._rules",
            "dispatch.gates.limits:Counted._owed",
            "host.modules:Modules._made",
            "host.supply:Servers._in_force",
            "host.upstreams:TaskCancellations._adapters",
            "host.upstreams:TaskCancellations._cancellations",
            "host.upstreams:TaskCancellations._links",
            "host.certificate_notices:AgentCertificates._stamps",
            "host.certificate_notices:AgentCertificates.known",
            "host.card_peers:CardPeers._links",
            "host.delegation:HostLink._asked",
            "host.expiry:ExpiryWatch._told",
            "host.publication:Publication._forms",
            "host.registry:Registry._targets",
            "host.rotation:Rotation._seen",
            "identity.authorities:ClientAuthorities._mandates",
            "identity.kept_forms:Keeper._items",
            "identity.key_ring:KeyRing.links",
            "identity.key_ring:KeyRing.until",
            "stores.sqlite:_insert",
            "upstream.pins:Pins._approved",
            "upstream.pins:Pins._off",
            "upstream.pins:Pins._waiting",
        }
    ),
    _HOSTED: frozenset(
        {
            "audit.lifecycle:LifecycleTable._states",
            "audit.writer:GroupWriter._heads",
            "audit.writer:GroupWriter._stopped",
            "dispatch.merchants:MerchantManifests._known",
            "dispatch.sealing:Sealer._postures",
            "identity.directory:AgentDirectory._by_id",
            "methods.discovery.namespace:Namespace._entries",
            "methods.discovery.publishing:DocumentPublisher._kept",
            "methods.discovery.status_document:Actions._known",
        }
    ),
    _HELD: frozenset(
        {
            "audit.settling:Settling._groups",
            "audit.takeover:Takeover._unsettled",
            "methods.standard.agenda:Agenda._now",
            "methods.standard.agenda:Agenda._queue",
            "methods.standard.agenda:Agenda._times",
            "methods.standard.claims:Claims._until",
            "methods.standard.collections.index:QueueOrder._claimed",
            "methods.standard.collections.index:QueueOrder._ranks",
            "methods.standard.collections.index:QueueOrder._until",
            "methods.standard.collections.index:Stock._coming",
            "methods.standard.collections.index:Stock._owned",
            "methods.standard.orchestration.monitors:Monitors._again",
            "methods.standard.orchestration.monitors:Monitors._aims",
            "methods.standard.orchestration.monitors:Monitors._busy",
            "methods.standard.orchestration.monitors:Monitors._of_agents",
            "methods.standard.orchestration.workflows:Workflows._carried",
            "methods.standard.orchestration.workflows:Workflows._runs",
            "adapters.a2a.fronted:FrontedTasks._clients",
            "adapters.a2a.fronted:FrontedTasks._tasks",
            "upstream.ownership:TaskOwnership._by_key",
            "upstream.ownership:TaskOwnership._of",
            "host.propagation:Propagation._pauses",
            "host.propagation:Propagation._sending",
            "host.propagation:Propagation._timers",
            "dispatch.approvals:Approvals._coming",
            "dispatch.rights:Rights._configured",
            "dispatch.rights:Rights._known",
            "dispatch.rights:Rights._narrowed",
            "dispatch.used_tokens:UsedTokens._by_token",
            "dispatch.used_tokens:UsedTokens._of_key",
            "dispatch.sessions:Suspensions._escalated",
            "dispatch.sessions:Suspensions._of",
            "host.vitals:PendingApprovals._until",
            "dispatch.sessions:Suspensions._places",
            "dispatch.sessions:Suspensions._suspended",
            "negotiation.contracts:ContractTable._entries",
            "negotiation.lasting:Links._links",
            "negotiation.contracts:ContractTable._owned",
            "negotiation.contracts:ContractTable._adrift",
            "negotiation.contracts:ContractTable._persistent",
            "registry.leases:Leases._held_back",
            "registry.leases:Leases._leases",
            "registry.leases:Leases._lost",
            "registry.leases:Leases._of",
            "registry.registered:Registered._entries",
        }
    ),
    _CALL: frozenset(
        {
            "host.computing:Computing._waiting",
            "methods.standard.collections.entering:Merged._values",
            "methods.standard.collections.entering:Merged.changes",
            "methods.standard.pure.extraction:_Extraction.confidence",
            "adapters.a2a.fronted:FrontedTasks._calls",
            "adapters.a2a.fronted:FrontedTasks._withdrawn",
            "adapters.mcp.attendance:Attendance._pending_calls",
            "adapters.mcp.calls:CallTracker._running",
            "adapters.mcp.notifications:NotificationQueue._queue",
            "upstream.bodies:Answer._unread",
            "adapters.mcp.elicitation:PendingCall._asked",
            "adapters.mcp.jsonrpc:JsonRpcPeer._calls",
            "adapters.mcp.jsonrpc:JsonRpcPeer._continued",
            "upstream.queue:AwaitingStart._waiters",
            "adapters.mcp.stdio:StdioLink._queue",
            "adapters.mcp.stdio:StdioLink._unread",
            "adapters.mcp.streamable_http:HttpLink._posts",
            "upstream.queue:CallQueue._at_work",
            "upstream.queue:CallQueue._queues",
            "adapters.mcp.request_states:RequestStates._of",
            "upstream.cancellation:Cancellation._ending",
            "upstream.web:_Reading._texts",
            "audit.export:ExportWriter._heads",
            "audit.keyed:Quotas._changed",
            "audit.merkle:Growth._changed",
            "audit.merkle:Tree._known",
            "audit.writer:GroupWriter.running",
            "audit.summaries:Tally.counts",
            "audit.writer:_Group.heads",
            "audit.writer:_Group.states",
            "dispatch.approvals:Approvals._running",
            "dispatch.approvals:Approvals._waiting",
            "dispatch.running:RunningCalls._stops",
            "dispatch.running:RunningCalls._waiting",
            "handlers.composition:Run._last",
            "handlers.deadlines:Deadlines._waits",
            "http.a2a_runs:Runs._runs",
            "mcp.connection:ClientConnection._asked",
            "mcp.connection:ClientConnection.running",
            "mcp.relay:Relay._farewells",
            "mcp.stream:Silences._due",
            "mcp.streamable:Alone.streams",
            "methods.delegation.asynchronous_tasks:AsynchronousTasks._running",
            "methods.delegation.asynchronous_tasks:AsynchronousTasks._working",
            "methods.standard.orchestration.batch:_Turns._queue",
            "methods.standard.orchestration.journal:StepJournal.outcome",
            "methods.standard.orchestration.runner:Run._gone",
            "methods.standard.orchestration.runner:Run._scope",
            "methods.standard.orchestration.runner:Run.begun",
            "methods.standard.orchestration.runner:Run.outcomes",
        }
    ),
    _LINK: frozenset(
        {
            "mcp.sessions:Session._owed",
            "audit.takeover:Door._waiting",
            "methods.inspection.feed:RecordFeed._waiting",
            "page.live:Viewing._waiting",
            "adapters.mcp.instances:Instances._by_key",
            "adapters.mcp.instances:Instances._ending",
            "upstream.log:UpstreamLog._kept",
            "upstream.log:UpstreamLog._passing",
            "adapters.mcp.subscribers:Listeners._of",
            "adapters.mcp.subscribers:Subscribers._listening",
            "upstream.supervision:Delays._restarts",
            "audit.tree:TreeKeeper._recent",
            "host.log_throttle:Throttle._kinds",
            "host.log_throttle:_Kind.sample",
            "protocols.admission:Admission._origins",
            "http.a2a_front:FrontResource._cards",
            "mcp.changes:Changes._hearing",
            "mcp.front:FrontResource._callers",
            "mcp.journal:Journal.sessions",
            "mcp.journal:SessionEvents._events",
            "mcp.relay:Relay._schemas",
            "mcp.sessions:Session._streams",
            "mcp.tasks:TaskOwners._owners",
            "mcp.sessions:Sessions._sessions",
            "protocols.accepting:AcceptingFactory._connections",
            "protocols.accepting:AcceptingFactory._lagging",
            "protocols.pacing:Pacing._waiting",
            "dispatch.sessions:SessionRegistry._agents",
            "dispatch.gates.limits:RateGate._logged",
            "methods.standard.pure.extraction:_compiled",
            "methods.standard.pure.normalizing:_registry",
        }
    ),
    _START: frozenset(
        {
            "negotiation.graph:EndpointGraph._givers",
            "protocols.pacing:handshakes_of",
            "protocols.pacing:trickles_of",
        }
    ),
    _UNUSED: frozenset(
        {
            "agis.matching:synonyms",
            "agis.passes.structural:_validator",
            "agis.passes.structural:schema",
            "agis.reading:_Marking._marks",
            "agis.words:words",
            "audit.export:_Reading._places",
            "audit.verify:Verifier._signers",
            "stores.memory:MemoryStore._by_audit_id",
            "stores.memory:MemoryStore._by_number",
            "stores.memory:MemoryStore._chains",
            "stores.memory:MemoryStore._checkpoints",
            "stores.memory:MemoryStore._held",
            "stores.memory:MemoryStore._keyed",
            "stores.memory:MemoryStore._numbers",
            "stores.memory:MemoryStore._reservations",
            "stores.memory:MemoryStore._states",
            "stores.memory:MemoryStore._tiles",
            "stores.rehearsed:RehearsedStore._tiles",
        }
    ),
}
"""Tables in memory that need no number of their own, by what bounds them."""
