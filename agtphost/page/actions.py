"""What can be done on the page: a form each, which becomes one request of AGTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from agtphost.page.text import in_path
from agtphost.vocabulary import media_types
from agtphost.vocabulary.identifiers import is_agent_id

Fields: TypeAlias = Mapping[str, str]

LONGEST = 4_096
"""Characters of one field."""

LIFECYCLE = {"deactivate": "DEACTIVATE", "reinstate": "REINSTATE", "revoke": "REVOKE", "deprecate": "DEPRECATE"}
"""Buttons, and the method that each stands for."""


class Malformed(Exception):
    """A form that no page here has; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One request."""

    method: str
    path: str
    given: Mapping[str, Any]
    done: str
    """What its success is called."""


def _word(fields: Fields, name: str) -> str:
    value = fields.get(name, "").strip()
    if not value or len(value) > LONGEST:
        raise Malformed(f"The field {name} is missing, or too long.")
    return value


def _reason(fields: Fields) -> dict[str, str]:
    value = fields.get("reason", "").strip()
    if len(value) > LONGEST:
        raise Malformed("The reason is too long.")
    return {"reason": value} if value else {}


def _chosen(fields: Fields, *known: str) -> str:
    value = fields.get("do", "")
    if value not in known:
        raise Malformed("The form was sent by no button that it has.")
    return value


def decide(fields: Fields) -> Act:
    """CONFIRM: an approval or an escalation is accepted, rejected or deferred."""
    status = _chosen(fields, "accepted", "rejected", "deferred")
    target = _word(fields, "target_id")
    given = {"target_id": target, "status": status, **_reason(fields)}
    return Act(method="CONFIRM", path="/", given=given, done=f"{target} is {status}.")


def reply(fields: Fields) -> Act:
    """REPLY: an answer to the agent that escalated, which decides nothing."""
    _chosen(fields, "reply")
    target, content = _word(fields, "in_reply_to"), _word(fields, "content")
    given = {"in_reply_to": target, "content": content}
    return Act(method="REPLY", path="/", given=given, done=f"The answer to {target} is in the agent's inbox.")


def decide_proposal(fields: Fields) -> Act:
    """CONFIRM of a proposal."""
    status = _chosen(fields, "accepted", "rejected", "deferred")
    known = _word(fields, "proposal_id")
    word = {"deferred": True} if status == "deferred" else {"accepted": status == "accepted"}
    return Act(
        method="CONFIRM",
        path=f"/proposals/{in_path(known)}",
        given={**word, **_reason(fields)},
        done=f"{known} is {status}.",
    )


def approve_definition(fields: Fields) -> Act:
    """EXECUTE: what an upstream says of itself now, as it was shown, is approved."""
    _chosen(fields, "approve")
    protocol, upstream, digest = (_word(fields, each) for each in ("protocol", "upstream", "sha256"))
    name = fields.get("name", "").strip()
    if protocol == "mcp":
        payload = {"tool": f"{upstream}.{name}", "sha256": digest}
        execute = {"action": "mcp.tools.approve", "payload_type": media_types.MCP_TOOLS, "payload": payload}
        return Act(method="EXECUTE", path="/", given=execute, done=f"{upstream}.{name} is approved.")
    kinds = {"a2a": ("a2a.card.approve", media_types.A2A), "acp": ("acp.agents.approve", media_types.ACP_RUN)}
    if protocol not in kinds:
        raise Malformed("Definitions of that protocol are not approved.")
    action, payload_type = kinds[protocol]
    payload = {"sha256": digest, **({"name": name} if name else {})}
    execute = {"action": action, "payload_type": payload_type, "payload": payload}
    return Act(
        method="EXECUTE", path=f"/{protocol}/{in_path(upstream)}", given=execute, done=f"{upstream} {name} is approved."
    )


def lifecycle(fields: Fields) -> Act:
    """DEACTIVATE, REINSTATE, REVOKE or DEPRECATE, with a reason; what is final takes the agent's name as well."""
    do = _chosen(fields, *LIFECYCLE)
    agent_id, name = _word(fields, "agent_id"), _word(fields, "name")
    if not is_agent_id(agent_id):
        raise Malformed("The form names no agent.")
    given = {"agent_id": agent_id, **_reason(fields)}
    if "reason" not in given:
        raise Malformed("Say why: the reason goes into the signed event.")
    if do == "revoke" and fields.get("typed", "").strip() != name:
        raise Malformed(f"A revocation is final: type the agent's name, {name}, to say that you mean it.")
    return Act(method=LIFECYCLE[do], path="/", given=given, done=f"{LIFECYCLE[do]} of {name} is on record.")


def end_call(fields: Fields) -> Act:
    """SUSPEND of a call that waits."""
    _chosen(fields, "end")
    known = _word(fields, "response_id")
    return Act(method="SUSPEND", path=f"/page/calls/{in_path(known)}", given={}, done=f"The call {known} was ended.")


def restart(fields: Fields) -> Act:
    """RESUME of an upstream: it is started anew."""
    _chosen(fields, "restart")
    known = _word(fields, "upstream")
    return Act(method="RESUME", path=f"/page/upstreams/{in_path(known)}", given={}, done=f"{known} is started anew.")


def revoke_contract(fields: Fields) -> Act:
    """REVOKE of a contract."""
    _chosen(fields, "revoke")
    known = _word(fields, "synthesis_id")
    given = {"target": "contract", "synthesis_id": known, **_reason(fields)}
    return Act(method="REVOKE", path="/", given=given, done=f"The contract {known} is revoked.")


def sweep(fields: Fields) -> Act:
    """REVOKE of contracts that nobody can use any more."""
    _chosen(fields, "sweep")
    return Act(method="REVOKE", path="/", given={"target": "stale-contracts"}, done="Stale contracts were swept.")


ACTIONS: Mapping[str, Callable[[Fields], Act]] = {
    "approve-definition": approve_definition,
    "decide": decide,
    "decide-proposal": decide_proposal,
    "end-call": end_call,
    "lifecycle": lifecycle,
    "reply": reply,
    "restart": restart,
    "revoke-contract": revoke_contract,
    "sweep": sweep,
}
"""By the last segment of the path that their forms are sent to."""
