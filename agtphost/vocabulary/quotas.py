"""
The quotas of all state that requests make the host keep.

:data:`ITEM_KINDS`: the kinds of state items, which are durable; the held table takes no item of a kind that is not
here. :data:`ANSWERS`: stored answers of keyed requests, which stay in the database. Tables in memory have their bounds
in their code, and their register in ``tests/vocabulary/register.py``. ``docs/limits.rst`` shows all, and a test
compares it with these modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agtphost.vocabulary.bounds import ANY, DAY, HOUR, KIB, MIB, Answers, Cache, ItemQuota
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


APPROVAL: Final = "approval"
"""The kind of calls that a person approves."""

GRANT: Final = "grant"
"""The kind of what operators let agents do: see :mod:`agtphost.dispatch.rights`."""

SCOPES: Final = "scope-statement"
"""The kind of what issuers state about their agents' scopes: see :mod:`agtphost.dispatch.scope_records`."""

AUTHORIZATION: Final = "authorization"
"""The kind of what agents authorize others to do: see :mod:`agtphost.dispatch.gates.authorization_token`."""

CANCELLATION: Final = "cancellation"
"""The kind of what was cancelled and is gone: see :mod:`agtphost.methods.standard.cancellation`."""

ALERT: Final = "alert"
"""The kind of alerts: see :mod:`agtphost.methods.standard.messages.alerts`."""

PUBLICATION: Final = "publication"
"""The kind of what is published later: see :mod:`agtphost.methods.standard.channels`."""

CONNECTION: Final = "connection"
"""The kind of what CONNECT opened: see :mod:`agtphost.methods.standard.connections`."""

CARD: Final = "card"
"""The kind of registered cards: see :mod:`agtphost.registry.registered`."""

CARD_VERSION: Final = "card-version"
"""The kind of their former versions."""

VERIFICATION: Final = "audit-verification"
"""The kind of what the last verification of the evidence came to."""

CLOCK_LEAP: Final = "clock-leap"
"""The kind of leaps ahead of the clock: see :mod:`agtphost.audit.clock_watch`."""

SESSION: Final = "session"
"""The kind of sessions of certified agents: see :mod:`agtphost.dispatch.sessions`."""

AGENT: Final = "agent"
"""The kind of the public documents of issued agents: see :mod:`agtphost.host.agent_admission`."""

COLLECTION_ITEM: Final = "collection-item"
"""The kind of what agents keep in collections: see :mod:`agtphost.methods.standard.collections`."""

COLLECTION_VERSION: Final = "collection-version"
"""The kind of their former versions."""

_AGAIN = "Try again later."
_PINS = "Remove upstreams, or their tools, that are used no more."


def _of_agents(kind: str, says: str, per_owner: int, **more: object) -> ItemQuota:
    """Return a kind whose items belong to agents."""
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
    return ItemQuota(**given)  # type: ignore[arg-type]


def _of_the_host(kind: str, says: str, in_all: int, **more: object) -> ItemQuota:
    """Return a kind whose items follow from what the operator configured or did."""
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
    return ItemQuota(**given)  # type: ignore[arg-type]


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
        indexed=("task_id", "message_task_id", "recipient", "owner_id"),
        brief=("status", "flood", "queued", "priority", "created_at", "escalated_by", "asked_with"),
        reason=Reason.TOO_MANY_ESCALATIONS,
        remedy="Pause the task, and escalate again once some are decided.",
    ),
    _of_agents(
        APPROVAL,
        "a call that a person approves, and what became of it; 100 open ones of an agent",
        1_000,
        in_all=20_000,
        octets_per_owner=8 * MIB,
        octets_in_all=128 * MIB,
        unproven=20,
        lives=3 * DAY,
        state="status",
        finished=frozenset({"rejected", "used"}),
        indexed=("digest",),
        brief=("status", "until", "use_by", "created", "caller", "label"),
        reason=Reason.TOO_MANY_APPROVALS,
        remedy="Wait until some of them are decided.",
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
        giver="sender",
        brief=("status", "urgency", "sender_owner", "places", "sent_at", "task_id"),
        reason=Reason.INBOX_FULL,
    ),
    _of_agents("attestation", "the receipt that a repeated CONFIRM is answered with", 500, lives=7 * DAY, finished=ANY),
    # Work that is paused, or that continues without the caller
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
        indexed=("task_id", "delegatee"),
        brief=("state", "process", "accepted_at"),
        reason=Reason.TOO_MANY_DELEGATIONS,
        remedy="Wait until one of them has ended.",
    ),
    _of_agents(
        "workflow",
        "a CHAIN that runs, waits or is paused, and its outcome",
        200,
        octets_per_owner=16 * MIB,
        octets_in_all=128 * MIB,
        lives=None,
        state="state",
        finished=frozenset({"finished", "failed", "cancelled"}),
        brief=("state", "created_at", "schedule", "pause"),
        reason=Reason.TOO_MANY_WORKFLOWS,
        remedy="CANCEL one of them, or wait until one has ended.",
    ),
    _of_agents(
        "workflow-step",
        "how far a workflow has come: a step that has begun, or what it came to",
        2_000,
        in_all=50_000,
        octets_per_owner=16 * MIB,
        octets_in_all=128 * MIB,
        lives=None,
        brief=("state",),
        reason=Reason.TOO_MANY_WORKFLOWS,
        remedy="Wait until a workflow has ended.",
    ),
    _of_agents(
        "failed-call",
        "a call that failed and carried a Task-ID, for RETRY",
        50,
        lives=DAY,
        finished=ANY,
        brief=("at", "task_id"),
    ),
    _of_agents(
        "monitor",
        "a MONITOR subscription, until it is cancelled",
        50,
        lives=None,
        brief=("agents", "interval"),
        reason=Reason.TOO_MANY_MONITORS,
        remedy="End one with NOTIFY and monitor_cancel.",
    ),
    _of_agents(
        "generated-code",
        "the digest of code that GENERATE made and that was not reviewed",
        2_000,
        lives=30 * DAY,
        finished=ANY,
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
    _of_agents(
        # The table of sessions evicts before this is full, so that no call is refused for one.
        SESSION,
        "whose a Session-ID is, and whether the session ended with its agent; 200 of an agent, 10,000 in all",
        4_000,
        in_all=12_000,
        octets_per_owner=MIB,
        octets_in_all=4 * MIB,
        unproven=1,
        lives=None,
        finished=ANY,
    ),
    # Things that can be used once: never dropped before they expire
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
    _of_agents(
        AUTHORIZATION,
        "what AUTHORIZE granted, until it ends",
        500,
        lives=DAY,
        state="state",
        finished=frozenset({"cancelled"}),
        indexed=("subject",),
        brief=("state",),
        remedy="CANCEL grants that are used no more.",
    ),
    _of_agents(
        ALERT,
        "an alert, and whether it was acknowledged",
        1_000,
        lives=37 * DAY,
        state="state",
        finished=frozenset({"acknowledged", "unacknowledged", "cancelled", "sent"}),
        brief=("state", "due"),
    ),
    _of_agents(
        PUBLICATION,
        "what PUBLISH is to publish at a time to come",
        500,
        octets_per_owner=16 * MIB,
        lives=37 * DAY,
        state="state",
        finished=frozenset({"cancelled", "failed"}),
        brief=("state", "at"),
    ),
    _of_agents(CANCELLATION, "that something was cancelled of which nothing is left", 500, lives=7 * DAY, finished=ANY),
    _of_agents(
        CONNECTION,
        "what CONNECT opened, until it is cancelled or ends",
        100,
        lives=None,
        state="state",
        finished=frozenset({"cancelled"}),
        indexed=("pair",),
        brief=("state",),
        remedy="CANCEL connections that are used no more.",
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
        remedy="Release a contract that you do not need any more.",
    ),
    _of_agents(
        "contract-accepted", "that a preview was accepted", 20_000, in_all=100_000, unproven=64, lives=372 * DAY
    ),
    # The registry
    _of_agents(
        CARD,
        "a card that an agent or an operator registered, until it is withdrawn for good or forgotten",
        20_000,
        in_all=100_000,
        octets_per_owner=64 * MIB,
        octets_in_all=256 * MIB,
        unproven=1,
        lives=None,
        reason=Reason.TOO_MANY_CARDS,
        remedy="Withdraw cards that are used no more, with remove.",
    ),
    _of_agents(
        CARD_VERSION,
        "a former version of such a card; 20 of a card",
        100_000,
        in_all=400_000,
        octets_per_owner=16 * MIB,
        octets_in_all=64 * MIB,
        unproven=1,
        lives=None,
        finished=ANY,
    ),
    _of_agents(
        COLLECTION_ITEM,
        "an item of a collection of ``[[methods.collection]]``, a relation of LINK, a binding of EMBED",
        50_000,
        in_all=200_000,
        octets_per_owner=64 * MIB,
        octets_in_all=256 * MIB,
        unproven=100,
        lives=None,
        giver="entered_by",
        brief=("collection", "id", "owner", "work", "share", "entered_by"),
        reason=Reason.TOO_MANY_ITEMS,
        remedy="Keep less here, or tell the operator.",
    ),
    _of_agents(
        COLLECTION_VERSION,
        "a former version of such an item, for FETCH; ``versions`` of an item, 5 unless its collection says otherwise",
        50_000,
        in_all=200_000,
        octets_per_owner=32 * MIB,
        octets_in_all=128 * MIB,
        unproven=100,
        lives=None,
        finished=ANY,
    ),
    # What follows from the operator's own doing and configuration
    _of_the_host("retained-agent", "what stays of a revoked or deprecated agent", 1_000_000, indexed=("label",)),
    _of_the_host(
        GRANT,
        "what an operator lets an agent do, until it is taken back; 256 of an agent",
        100_000,
        per_owner=257,
        octets_per_owner=MIB,
        reason=Reason.TOO_MANY_GRANTS,
        remedy="Take back expired grants: agtp agent ungrant.",
    ),
    _of_the_host(VERIFICATION, "what the last verification that was put on record came to", 1),
    _of_the_host(
        CLOCK_LEAP,
        "that the clock went far ahead, for as long as answers are kept by it",
        1_000,
        octets_per_owner=MIB,
        octets_in_all=MIB,
        lives=None,
        finished=ANY,
    ),
    _of_the_host(
        AGENT,
        "the Genesis and the Identity Document of an agent whose issue is on record",
        100_000,
        octets_per_owner=512 * MIB,
        octets_in_all=512 * MIB,
        brief=("label",),
    ),
    _of_the_host(SCOPES, "the newest statement of an issuer about an agent's scopes, and its document", 100_000),
    _of_the_host("signing-key", "the newest statement that one signing key of the host follows another", 1),
    _of_the_host("quic-reset-key", "the secret of stateless resets from before the newest signing key", 1),
    _of_the_host("continuation-key", "the keys of continuation tokens from before the newest signing key", 1),
    _of_the_host("org-domain", "the registrar's report about a domain", 1_000),
    _of_the_host("lifecycle-notice", "a notice that a subscriber has not received yet", 100_000),
    _of_the_host("certificate-revocation", "a revocation that was reported", 10_000),
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
    _of_the_host("mcp-tool-changed", "a note that a changed tool was reported", 100_000, remedy=_PINS),
)

ITEM_KINDS: Final[Mapping[str, ItemQuota]] = {holding.kind: holding for holding in _KINDS}


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
