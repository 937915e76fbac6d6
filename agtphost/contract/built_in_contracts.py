"""
The contracts of the host's own endpoints, by the rules that operators' are held to (AGTP-API sections 5.3, 6.4, 7.1).

What a built-in takes, what is true after it, and what it does to the world.
Its handler reads the parameters and refuses wrong ones with reasons of its
own; here stands which there are. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT: Mapping[str, Any] = {"type": "string"}
COUNT: Mapping[str, Any] = {"type": ["integer", "string"]}
NUMBER: Mapping[str, Any] = {"type": ["number", "string"]}
FLAG: Mapping[str, Any] = {"type": ["boolean", "string"]}
OBJECT: Mapping[str, Any] = {"type": "object"}
TEXTS: Mapping[str, Any] = {"type": ["array", "string"]}
ANYTHING: Mapping[str, Any] = {}

BINDINGS = ("registered_function", "composition", "external_service")
"""The kinds of handlers that there are (AGTP-API section 12)."""

REGISTERED = BINDINGS[0]
"""That of the host's own."""

COMMON: Mapping[str, Mapping[str, Any]] = {"context": ANYTHING, "session_id": TEXT, "task_id": TEXT}
"""
Parameters of every built-in: all methods accept a context (core v08 section 7.2), and clients that send no envelope
have what else is beside ``parameters`` in one (core v08 section 5.7) beside theirs.
"""

_PARAMETER = re.compile(r"\{([A-Za-z0-9_]+)\}")


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a built-in promises."""

    outcome: str
    """What is true after success."""

    takes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters, each with its schema; those of the path come by themselves."""

    needs: tuple[str, ...] = ()
    """Parameters that are required, besides those of the path."""

    impact: str = ""
    """Empty: informational for what reads, reversible for what changes something."""

    def names(self, path: str) -> frozenset[str]:
        """Every parameter there is, those of the path template included."""
        return frozenset((*_PARAMETER.findall(path), *COMMON, *self.takes))

    def input_schema(self, path: str) -> dict[str, Any]:
        """
        The closed schema of its parameters.

        :param path: the template.
        """
        named = _PARAMETER.findall(path)
        properties = {**dict.fromkeys(named, TEXT), **COMMON, **self.takes}
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: dict(schema) for name, schema in properties.items()},
            "required": [*named, *self.needs],
        }


def _contract(
    outcome: str, takes: Mapping[str, Mapping[str, Any]] | None = None, needs: Iterable[str] = (), impact: str = ""
) -> Contract:
    return Contract(outcome=outcome, takes=takes or {}, needs=tuple(needs), impact=impact)


FILTERED = (
    *("tier", "capabilities", "scopes", "geography", "principal"),
    *("capability_domains", "trust_tier_min", "governance_zone", "org_domain", "role"),
)
"""Members of DISCOVER's ``filter`` that the drafts name, which may stand beside ``criteria`` as well."""

_TARGET = {"target": TEXT}
_PAGE = {"limit": COUNT, "continuation_token": TEXT}
_CHANGE = {"agent_id": TEXT, "reason": TEXT, "actor": TEXT, "agent_label": TEXT}
_DOMAIN = {"org_domain": TEXT, "expires_at": TEXT, "grace": COUNT, "owner_id": TEXT}
_SEARCH = {
    "criteria": ANYTHING,
    "intent": TEXT,
    "filter": OBJECT,
    "result_type": TEXT,
    "max_results": COUNT,
    "limit": COUNT,
    "offset": COUNT,
    **dict.fromkeys(FILTERED, ANYTHING),
}
_EXECUTED = {
    "action": TEXT,
    "parameters": ANYTHING,
    "payload": ANYTHING,
    "payload_type": TEXT,
    "server": TEXT,
    "modality": TEXT,
    "idempotency_key": TEXT,
    "inputResponses": ANYTHING,
    "requestState": ANYTHING,
}
_PROPOSAL = {
    "endpoint": OBJECT,
    "proposal": OBJECT,
    "name": TEXT,
    "parameters": ANYTHING,
    "outcome": ANYTHING,
    "method": TEXT,
    "path": TEXT,
    "description": TEXT,
    "semantic": OBJECT,
    "errors": TEXTS,
    "intent": ANYTHING,
    "input_schema": OBJECT,
    "output_schema": OBJECT,
    "required_scopes": TEXTS,
    "scope_requested": TEXTS,
    "data_class": ANYTHING,
    "contract_version": TEXT,
    "requested_duration": ANYTHING,
    "persistent": FLAG,
    "proposed_method": TEXT,
    "signature": ANYTHING,
    "version": TEXT,
    "lineage": ANYTHING,
    "namespace": TEXT,
    "handler": OBJECT,
    "deprecated": OBJECT,
}
"""
Both forms of a proposal: AGTP-API section 10.4, with every member of a definition (AGTP-API section 6.2); core v08
sections 7.2.7 and 7.5.
"""

_READ_ELSEWHERE: Mapping[str, Mapping[str, Any]] = {
    "modality": TEXT,
    "mcp_server": TEXT,
    "mcp_resource_uri": TEXT,
    "mcp_prompt_name": TEXT,
    "mcp_prompt_arguments": OBJECT,
    "ref": OBJECT,
    "argument": OBJECT,
    "a2a_agent": TEXT,
    "a2a_task_id": TEXT,
    "history_length": COUNT,
    "status": ANYTHING,
    "page_size": COUNT,
    "acp_server": TEXT,
    "acp_run_id": TEXT,
}
"""What a QUERY with a ``modality`` names (core v08 section 8.4)."""

_INSPECTED = {
    "target": TEXT,
    "audit_id": TEXT,
    "agent_id": TEXT,
    "chain": TEXT,
    "limit": COUNT,
    "before": COUNT,
    "method": TEXT,
    "path": TEXT,
    "authority_scope": TEXT,
    "assurance": TEXT,
    "input": OBJECT,
    "size": COUNT,
    "synthesis_id": TEXT,
    "delegation_id": TEXT,
    "task_id": TEXT,
    "attempt_id": TEXT,
    "continuation_token": TEXT,
    "partial": FLAG,
    "tool": TEXT,
    "action": TEXT,
    "server": TEXT,
    "upstream": TEXT,
    "name": TEXT,
}
_CONFIRMED = {"target_id": TEXT, "status": TEXT, "reason": TEXT, "attestation": ANYTHING}
_SUSPENDED = {
    "session_id": TEXT,
    "task_id": TEXT,
    "synthesis_id": TEXT,
    "workflow_id": TEXT,
    "reason": TEXT,
    "checkpoint": ANYTHING,
    "resume_by": TEXT,
}
_DELEGATED = {
    "target_agent_id": TEXT,
    "task": ANYTHING,
    "authority_scope": ANYTHING,
    "delegation_token": ANYTHING,
    "deadline": ANYTHING,
    "callback": TEXT,
    "asynchronous": FLAG,
}

CONTRACTS: Mapping[tuple[str, str], Contract] = {
    ("DISCOVER", "/"): _contract(
        "The caller has the manifest, the directory, or the best candidates.", {**_TARGET, **_SEARCH}
    ),
    ("DISCOVER", "/agents"): _contract(
        "The caller has the agents that it may be shown and could call.", {**_TARGET, "result_type": TEXT}
    ),
    ("DISCOVER", "/genesis"): _contract("The caller has the addressed agent's Genesis, octet for octet.", _TARGET),
    ("DISCOVER", "/methods"): _contract("The caller has every endpoint that it could call.", _TARGET),
    ("DISCOVER", "/tools"): _contract("The caller has every hosted tool that it could call.", _TARGET),
    ("DISCOVER", "/apis"): _contract("The caller has the HTTP APIs that the server fronts.", _TARGET),
    ("DISCOVER", "/patterns"): _contract("The caller has the patterns that the server would synthesize.", _TARGET),
    ("DISCOVER", "/contracts"): _contract("The caller has the contracts that it may see.", _TARGET),
    ("DESCRIBE", "/"): _contract(
        "The caller has the Capability Document.", {"capability_domains": TEXT, "version_min": TEXT, "format": TEXT}
    ),
    ("DESCRIBE", "/agents"): _contract("The caller has the signed Agent Namespace Document.", {"format": TEXT}),
    ("QUERY", "/agents"): _contract("The caller has the answer of the Agent Namespace Document.", {"format": TEXT}),
    ("DESCRIBE", "/agents/{name}"): _contract("The caller has the agent's Identity Document.", {"format": TEXT}),
    ("DESCRIBE", "/agents/{name}/status"): _contract("The caller has the agent's status.", {"format": TEXT}),
    ("INSPECT", "/"): _contract(
        "The caller has the stored evidence that it asked for, as it was signed.", _INSPECTED, ["target"]
    ),
    ("ACTIVATE", "/"): _contract("The agent is active, and a signed event says so.", _CHANGE),
    ("DEACTIVATE", "/"): _contract("The agent is suspended, and a signed event says so.", {**_CHANGE, **_DOMAIN}),
    ("REINSTATE", "/"): _contract("The agent is active again, and a signed event says so.", {**_CHANGE, **_DOMAIN}),
    ("REVOKE", "/"): _contract(
        "The agent is retired for good, and a signed event says so.",
        {**_CHANGE, **_TARGET, **_DOMAIN, "synthesis_id": TEXT, "mode": TEXT},
        impact="irreversible",
    ),
    ("DEPRECATE", "/"): _contract(
        "The agent serves on as deprecated, and a signed event says so.",
        {**_CHANGE, **_DOMAIN, "successor_agent_id": TEXT, "migration_deadline": TEXT},
    ),
    ("EXECUTE", "/"): _contract(
        "The action was carried out, and the answer is its result.", _EXECUTED, impact="irreversible"
    ),
    ("PROPOSE", "/"): _contract(
        "The proposal is accepted, answered by a counter-proposal, or waits for a decision.", _PROPOSAL
    ),
    ("QUERY", "/proposals"): _contract("The caller has the proposals that it may see.", {**_PAGE, "status": TEXT}),
    ("QUERY", "/proposals/{proposal_id}"): _contract("The caller knows what became of the proposal.", {}),
    ("CONFIRM", "/proposals/{proposal_id}"): _contract(
        "The proposal is decided, and its proposer is told.", {"accepted": FLAG, "reason": TEXT}
    ),
    ("QUERY", "/"): _contract(
        "The caller has an answer of what the host holds, with its sources.",
        {
            "intent": ANYTHING,
            "scope": ANYTHING,
            "format": TEXT,
            "confidence_threshold": NUMBER,
            "max_results": COUNT,
            **_READ_ELSEWHERE,
        },
        ["intent"],
    ),
    ("SUMMARIZE", "/"): _contract(
        "The caller has a shorter text of what was given.",
        {"source": ANYTHING, "content": ANYTHING, "length": TEXT, "focus": TEXT, "audience": TEXT, "format": TEXT},
    ),
    ("PLAN", "/"): _contract(
        "The caller has steps towards the goal, none of which was taken.",
        {"goal": ANYTHING, "constraints": ANYTHING, "available_methods": TEXTS},
        ["goal"],
    ),
    ("ESCALATE", "/"): _contract(
        "The decision lies with its recipient, and the caller has a receipt.",
        {"task_id": TEXT, "reason": TEXT, "priority": TEXT, "context": ANYTHING, "deadline": TEXT, "recipient": TEXT},
        ["task_id", "reason", "context"],
    ),
    ("QUERY", "/escalations"): _contract(
        "The caller has the escalations that are its own or its to decide.",
        {**_PAGE, "status": TEXT, "escalation_id": TEXT, "task_id": TEXT},
    ),
    ("CONFIRM", "/"): _contract(
        "What the caller attests is on record for good.", _CONFIRMED, ["target_id", "status"], impact="irreversible"
    ),
    ("SUSPEND", "/"): _contract("The session or task stands still until it is resumed.", _SUSPENDED),
    ("RESUME", "/"): _contract(
        "The session or task goes on from where it stood.",
        {"workflow_id": TEXT, "resumption_nonce": TEXT, "checkpoint": ANYTHING},
        ["workflow_id", "resumption_nonce"],
    ),
    ("NOTIFY", "/"): _contract(
        "The message is kept for its recipient, who cannot be made to forget it.",
        {
            "recipient": TEXT,
            "content": ANYTHING,
            "urgency": TEXT,
            "delivery_guarantee": TEXT,
            "expiry": TEXT,
            "topic": TEXT,
        },
        ["recipient", "content"],
        impact="irreversible",
    ),
    ("QUERY", "/notifications"): _contract(
        "The caller has its messages that are not confirmed yet.", {**_PAGE, "box": TEXT, "urgency": TEXT}
    ),
    ("DELEGATE", "/"): _contract(
        "The other agent has done, or has taken on, the task.",
        _DELEGATED,
        ["target_agent_id", "task"],
        impact="irreversible",
    ),
    ("QUERY", "/delegations"): _contract(
        "The caller knows what became of the tasks that it delegated.",
        {**_PAGE, "state": TEXT, "task_id": TEXT, "delegation_id": TEXT},
    ),
    ("QUOTE", "/"): _contract(
        "The caller knows what the operation would cost, and nothing was done.",
        {"method": TEXT, "path": TEXT, "parameters": ANYTHING, "budget_units": ANYTHING, "cart": ANYTHING},
    ),
    ("CONFIRM", "/checkpoints"): _contract(
        "The other log's checkpoint is witnessed, and its host has the cosignature.",
        {"checkpoint": ANYTHING, "attestation": ANYTHING, "status": TEXT, "target_id": TEXT, "reason": TEXT},
        impact="irreversible",
    ),
    ("QUERY", "/checkpoints"): _contract(
        "The caller has the newest checkpoint that was witnessed of a log.", {"origin": TEXT}
    ),
    ("QUERY", "/a2a-tasks"): _contract(
        "The client has its tasks.",
        {
            "contextId": TEXT,
            "status": ANYTHING,
            "statusTimestampAfter": TEXT,
            "pageToken": TEXT,
            "pageSize": COUNT,
            "includeArtifacts": FLAG,
        },
    ),
    ("QUERY", "/a2a-tasks/{task_id}"): _contract("The client has the task as it stands.", {"historyLength": COUNT}),
    ("SUSPEND", "/a2a-tasks/{task_id}"): _contract(
        "The task is cancelled, and what it had begun is stopped.", {"reason": TEXT}, impact="irreversible"
    ),
}
"""By method and path template."""

_CARRIED = _contract(
    "The upstream has answered what was carried to it.",
    {name: schema for name, schema in _EXECUTED.items() if name != "server"},
    impact="irreversible",
)
_OTHER = _contract("The call was answered.")


def contract_of(method: str, path: str) -> Contract:
    """The contract of a built-in: of one that carries payloads to a server, whichever protocol the server speaks."""
    found = CONTRACTS.get((method, path))
    if found is not None:
        return found
    return _CARRIED if method == "EXECUTE" else _OTHER
