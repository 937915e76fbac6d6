"""
Everything that the host keeps because of somebody's requests: one list, with a bound for each.

Three parts. :data:`ITEM_KINDS`: the kinds of state items, which are durable; the held
table takes no item of a kind that is not here. :data:`CACHES`: what is kept in
memory to spare work, or to remember whom it has seen; each can be lost.
:data:`ANSWERS`: stored answers of keyed requests, which stay in the database.
``docs/limits.rst`` shows all three, and a test compares it with this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agtphost.vocabulary.bounds import ANY, DAY, HOUR, KIB, MIB, Answers, Cache, Holding
from agtphost.vocabulary.reasons import Reason

ANSWERS: Final = Answers(
    keys=100_000,
    octets=64 * MIB,
    keys_in_all=1_000_000,
    octets_in_all=512 * MIB,
    unproven_keys=2_000,
    unproven_octets=2 * MIB,
    longest=64 * KIB,
    lives=DAY,
)


_AGAIN = "Try again later."
_PINS = "Remove upstreams, or their tools, that are used no more."


def _of_agents(kind: str, says: str, per_owner: int, **more: object) -> Holding:
    """A kind whose items belong to agents."""
    given: dict[str, object] = {
        "kind": kind,
        "says": says,
        "per_owner": per_owner,
        "in_all": per_owner * 100,
        "octets_per_owner": 4 * MIB,
        "octets_in_all": 64 * MIB,
        "unproven": max(per_owner // 10, 5),
        "remedy": _AGAIN,
        **more,
    }
    return Holding(**given)  # type: ignore[arg-type]


def _of_the_host(kind: str, says: str, in_all: int, **more: object) -> Holding:
    """A kind whose items follow from what the operator configured or did."""
    given: dict[str, object] = {
        "kind": kind,
        "says": says,
        "per_owner": in_all,
        "in_all": in_all,
        "octets_per_owner": 64 * MIB,
        "octets_in_all": 64 * MIB,
        "unproven": in_all,
        "lives": None,
        **more,
    }
    return Holding(**given)  # type: ignore[arg-type]


_KINDS: Final = (
    # What agents leave for others
    _of_agents(
        "escalation",
        "ESCALATE, until it is decided, and seven days more",
        5_000,
        in_all=200_000,
        octets_per_owner=16 * MIB,
        octets_in_all=512 * MIB,
        unproven=20,
        lives=None,
        state="status",
        finished=frozenset({"accepted", "rejected"}),
        indexed=("task_id", "recipient", "owner_id"),
        brief=("status", "flood", "queued", "priority", "created_at"),
        reason=Reason.TOO_MANY_ESCALATIONS,
        remedy="Keep the task still, and escalate again once some are decided.",
    ),
    _of_agents(
        "notification",
        "NOTIFY, in the recipient's inbox; read ones as receipts",
        2_000,
        in_all=50_000,
        octets_per_owner=32 * MIB,
        octets_in_all=128 * MIB,
        unproven=100,
        lives=30 * DAY,
        state="status",
        finished=frozenset({"delivered", "acknowledged"}),
        indexed=("sender",),
        brief=("status", "urgency", "sender_owner", "places"),
        reason=Reason.INBOX_FULL,
    ),
    _of_agents("attestation", "the receipt that a repeated CONFIRM is answered with", 500, lives=7 * DAY, finished=ANY),
    # Work that stands still, or goes on by itself
    _of_agents(
        "suspension",
        "SUSPEND; resumed ones until their nonce is forgotten",
        200,
        lives=31 * DAY,
        state="status",
        finished=frozenset({"resumed"}),
        brief=("status", "of", "name", "until", "suspension_id", "resume_by"),
        reason=Reason.TOO_MANY_SUSPENSIONS,
        remedy="RESUME one first.",
    ),
    _of_agents(
        "delegated-task",
        "a delegation that outlives its request, and what it came to",
        100,
        octets_per_owner=8 * MIB,
        lives=None,
        state="state",
        finished=frozenset({"finished", "failed"}),
        indexed=("task_id",),
        brief=("state", "process"),
        reason=Reason.TOO_MANY_DELEGATIONS,
        remedy="Wait until one of them has ended.",
    ),
    _of_agents(
        "a2a-task",
        "an A2A agent's task of a caller; 200 of a client of the front",
        1_000,
        unproven=1_000,
        lives=30 * DAY,
        finished=ANY,
    ),
    _of_agents("acp-run", "an ACP server's run of a caller", 1_000, lives=30 * DAY, finished=ANY),
    _of_agents("mcp-task", "an MCP server's task of a caller", 1_000, lives=30 * DAY, finished=ANY),
    _of_agents(
        "a2a-front-task",
        "a task that an A2A client began here; 200 of a client, 1,000 of all",
        1_000,
        in_all=1_000,
        octets_per_owner=64 * MIB,
        octets_in_all=64 * MIB,
        unproven=1_000,
        lives=7 * DAY,
        state="ended",
        finished=frozenset({"True"}),
        reason=Reason.TOO_MANY_A2A_FRONT_TASKS,
        remedy="Try again when a task has ended.",
    ),
    # What is good once: never forgotten before it has expired by itself
    _of_agents(
        "delegation",
        "the use of a Delegation-Token",
        1_000,
        lives=None,
        reason=Reason.TOO_MANY_DELEGATIONS,
        remedy="Delegate again once earlier tokens have expired.",
    ),
    _of_agents(
        "governance-token",
        "the use of a governance token",
        1_000,
        lives=None,
        reason=Reason.TOO_MANY_GOVERNANCE_TOKENS,
        remedy="Try again once earlier tokens have expired.",
    ),
    _of_agents(
        "intent-assertion",
        "the use of an Intent-Assertion",
        1_000,
        lives=None,
        reason=Reason.TOO_MANY_INTENT_ASSERTIONS,
        remedy="Try again once earlier assertions have expired.",
    ),
    # Commerce and negotiation
    _of_agents(
        "quote",
        "a quote in force",
        200,
        lives=None,
        reason=Reason.TOO_MANY_QUOTES,
        remedy="Wait until earlier quotes have ended.",
    ),
    _of_agents("rcns-attempt", "why a negotiation failed, for INSPECT", 50, in_all=200, lives=DAY, finished=ANY),
    _of_agents("negotiation", "the count of turns of a negotiation", 32, in_all=20_000, lives=HOUR, finished=ANY),
    _of_agents(
        "proposal",
        "a proposal under review, and what was decided",
        64,
        lives=37 * DAY,
        state="decision",
        finished=frozenset({"approved", "rejected"}),
        brief=("decision",),
        indexed=("decision",),
        reason=Reason.TOO_MANY_PROPOSALS,
        remedy="Wait for a decision about one of them.",
    ),
    _of_agents(
        "contract",
        "a negotiated contract; ended ones for seven days; ``[policies]`` has the live ones of an agent",
        20_000,
        in_all=100_000,
        octets_per_owner=64 * MIB,
        octets_in_all=256 * MIB,
        unproven=64,
        lives=372 * DAY,
        reason=Reason.TOO_MANY_CONTRACTS,
        remedy="Release a contract that is no longer needed.",
    ),
    _of_agents(
        "contract-accepted", "that a preview was accepted", 20_000, in_all=100_000, unproven=64, lives=372 * DAY
    ),
    # What follows from the operator's own doing and configuration
    _of_the_host("retained-agent", "what stays of a revoked or deprecated agent", 1_000_000, indexed=("label",)),
    _of_the_host("org-domain", "what was told of a domain", 1_000),
    _of_the_host("lifecycle-notice", "what a subscriber is still to be told", 100_000),
    _of_the_host("certificate-revocation", "a revocation that was told", 10_000),
    _of_the_host("witnessed-checkpoint", "the last checkpoint of a log that is witnessed here", 1_000),
    _of_the_host("witnessed-keys", "how the keys of such a log followed each other", 1_000),
    _of_the_host(
        "witnessed-contradiction",
        "two checkpoints of such a log that contradict each other; 50 of a log",
        5_000,
        indexed=("origin",),
    ),
    _of_the_host("upstream-pin", "an approved card or manifest of an upstream", 5_000, remedy=_PINS),
    _of_the_host(
        "upstream-definition",
        "the text of an approved tool, card or manifest; 1 MiB of an upstream",
        10_000,
        octets_per_owner=64 * MIB,
        indexed=("upstream",),
        brief=("sha256",),
        finished=ANY,
    ),
    _of_the_host("mcp-tool-pin", "an approved tool of an MCP server", 100_000, remedy=_PINS),
    _of_the_host("mcp-tool-changed", "that a changed tool was told of", 100_000, remedy=_PINS),
)

ITEM_KINDS: Final[Mapping[str, Holding]] = {holding.kind: holding for holding in _KINDS}


# Caches

CLAIMS: Final = Cache(
    place="dispatch.gates.authority:ClaimedScopesGate._memo",
    says="effective scopes of an Authority-Scope that was seen before; longer than 1 KiB is worked out each time",
    most_of_one=16,
    in_all=4_096,
    octets=16 * MIB,
)
LONGEST_CLAIM: Final = KIB
"""Characters of an Authority-Scope that is remembered."""


def _cache(place: str, says: str, in_all: int, octets: int, **more: object) -> Cache:
    return Cache(place=place, says=says, in_all=in_all, octets=octets, **more)  # type: ignore[arg-type]


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
    _cache("dispatch.gates.limits:RateGate._exempt", "addresses that are not counted", 4_096, MIB),
    _cache("dispatch.gates.limits:address_origin", "the network of an address", 4_096, MIB),
    _cache("protocols.admission:origin_of", "the network of an address", 1_024, MIB),
    _cache("identity.jws:_kid_of", "the key that a header names", 64, MIB),
    _cache(
        "methods.cognitive.relevance:_stem",
        "words of searches without their endings, up to 64 characters",
        20_000,
        8 * MIB,
    ),
    _cache("methods.cognitive.query:words_of", "words of the operator's documents and descriptions", 4_096, 64 * MIB),
    _cache("methods.discovery.candidates:Index._allowed", "what an authority may find", 64, 8 * MIB),
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
            "host.certificate_notices:AgentCertificates._stamps",
            "host.certificate_notices:AgentCertificates.known",
            "host.delegation:HostLink._asked",
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
            "adapters.a2a.fronted:FrontedTasks._clients",
            "adapters.a2a.fronted:FrontedTasks._tasks",
            "upstream.ownership:TaskOwnership._by_key",
            "upstream.ownership:TaskOwnership._of",
            "host.propagation:Propagation._pauses",
            "host.propagation:Propagation._sending",
            "host.propagation:Propagation._timers",
            "dispatch.used_tokens:UsedTokens._by_token",
            "dispatch.used_tokens:UsedTokens._of_key",
            "dispatch.sessions:Suspensions._escalated",
            "dispatch.sessions:Suspensions._of",
            "dispatch.sessions:Suspensions._places",
            "dispatch.sessions:Suspensions._suspended",
            "negotiation.contracts:ContractTable._entries",
            "negotiation.contracts:ContractTable._links",
            "negotiation.contracts:ContractTable._owned",
            "negotiation.contracts:ContractTable._adrift",
            "negotiation.contracts:ContractTable._persistent",
        }
    ),
    _CALL: frozenset(
        {
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
            "audit.keyed:Quotas._changed",
            "audit.merkle:Growth._changed",
            "audit.merkle:Tree._known",
            "audit.writer:GroupWriter.running",
            "audit.summaries:Tally.counts",
            "audit.writer:_Group.heads",
            "audit.writer:_Group.states",
            "dispatch.running:RunningCalls._stops",
            "dispatch.running:RunningCalls._waiting",
            "handlers.composition:Run._last",
            "http.a2a_runs:Runs._runs",
            "methods.delegation.asynchronous_tasks:AsynchronousTasks._running",
            "methods.delegation.asynchronous_tasks:AsynchronousTasks._working",
        }
    ),
    _LINK: frozenset(
        {
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
            "protocols.accepting:AcceptingFactory._connections",
            "protocols.accepting:AcceptingFactory._lagging",
            "protocols.handshakes:HandshakeTurns._waiting",
            "protocols.trickles:Trickles._waiting",
            "dispatch.sessions:SessionRegistry._agents",
            "dispatch.gates.limits:RateGate._logged",
        }
    ),
    _START: frozenset(
        {
            "host.root:Host._files",
            "negotiation.graph:EndpointGraph._givers",
            "protocols.handshakes:turns_of",
            "protocols.trickles:trickles_of",
        }
    ),
    _UNUSED: frozenset(
        {
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
