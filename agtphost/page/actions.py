"""Turn the forms of the page into requests of AGTP, one each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agtphost.page import agent_rights, configuration, tool_trial
from agtphost.page.form_fields import Fields, FormRequest, MalformedForm, read_reason, read_word, require_button
from agtphost.page.value_text import in_path
from agtphost.vocabulary import media_types
from agtphost.vocabulary.identifiers import is_agent_id

MOST_OF_GROUP = 50
"""Questions that one form decides."""

LIFECYCLE = {"deactivate": "DEACTIVATE", "reinstate": "REINSTATE", "revoke": "REVOKE", "deprecate": "DEPRECATE"}
"""The method that each button sends."""


def decide(fields: Fields) -> FormRequest:
    """Return the CONFIRM that accepts, rejects or defers an approval or an escalation."""
    status = require_button(fields, "accepted", "rejected", "deferred")
    target = read_word(fields, "target_id")
    given = {"target_id": target, "status": status, **read_reason(fields)}
    return FormRequest(method="CONFIRM", path="/", given=given, done=f"{target} is {status}.")


def reply(fields: Fields) -> FormRequest:
    """Return the REPLY to the agent that escalated; it decides nothing."""
    require_button(fields, "reply")
    target, content = read_word(fields, "in_reply_to"), read_word(fields, "content")
    given = {"in_reply_to": target, "content": content}
    return FormRequest(method="REPLY", path="/", given=given, done=f"The answer to {target} is in the agent's inbox.")


def decide_proposal(fields: Fields) -> FormRequest:
    """Return the CONFIRM of a proposal."""
    status = require_button(fields, "accepted", "rejected", "deferred")
    known = read_word(fields, "proposal_id")
    word = {"deferred": True} if status == "deferred" else {"accepted": status == "accepted"}
    return FormRequest(
        method="CONFIRM",
        path=f"/proposals/{in_path(known)}",
        given={**word, **read_reason(fields)},
        done=f"{known} is {status}.",
    )


def decide_all(fields: Fields) -> FormRequest:
    """Return the CONFIRM of each question of a group, with one reason for all."""
    one, known = {"questions": (decide, "target_id"), "proposals": (decide_proposal, "proposal_id")}.get(
        fields.get("kind", ""), (None, "")
    )
    targets = list(dict.fromkeys(read_word(fields, "targets").split()))
    if one is None or len(targets) > MOST_OF_GROUP:
        raise MalformedForm(f"The form has no group of at most {MOST_OF_GROUP} questions of one kind.")
    first, *further = (one({**fields, known: target}) for target in targets)
    return replace(first, further=further)


def approve_definition(fields: Fields) -> FormRequest:
    """Return the EXECUTE that approves the present definition of an upstream, as it was shown."""
    require_button(fields, "approve")
    protocol, upstream, digest = (read_word(fields, each) for each in ("protocol", "upstream", "sha256"))
    name = fields.get("name", "").strip()
    if protocol == "mcp":
        payload = {"tool": f"{upstream}.{name}", "sha256": digest}
        execute = {"action": "mcp.tools.approve", "payload_type": media_types.MCP_TOOLS, "payload": payload}
        return FormRequest(method="EXECUTE", path="/", given=execute, done=f"{upstream}.{name} is approved.")
    kinds = {"a2a": ("a2a.card.approve", media_types.A2A), "acp": ("acp.agents.approve", media_types.ACP_RUN)}
    if protocol not in kinds:
        raise MalformedForm("Definitions of this protocol cannot be approved.")
    action, payload_type = kinds[protocol]
    payload = {"sha256": digest, **({"name": name} if name else {})}
    execute = {"action": action, "payload_type": payload_type, "payload": payload}
    return FormRequest(
        method="EXECUTE", path=f"/{protocol}/{in_path(upstream)}", given=execute, done=f"{upstream} {name} is approved."
    )


def lifecycle(fields: Fields) -> FormRequest:
    """
    Return the DEACTIVATE, REINSTATE, REVOKE or DEPRECATE with its reason; a final one needs the agent's name typed.
    """
    do = require_button(fields, *LIFECYCLE)
    agent_id, name = read_word(fields, "agent_id"), read_word(fields, "name")
    if not is_agent_id(agent_id):
        raise MalformedForm("The form has no valid Agent-ID.")
    given = {"agent_id": agent_id, **read_reason(fields)}
    if "reason" not in given:
        raise MalformedForm("Give a reason: it goes into the signed event.")
    if do == "revoke" and fields.get("typed", "").strip() != name:
        raise MalformedForm(f"A revocation is final: type the agent's name, {name}, to say that you mean it.")
    return FormRequest(method=LIFECYCLE[do], path="/", given=given, done=f"{LIFECYCLE[do]} of {name} is on record.")


def end_call(fields: Fields) -> FormRequest:
    """Return the SUSPEND of a waiting call."""
    require_button(fields, "end")
    known = read_word(fields, "response_id")
    return FormRequest(
        method="SUSPEND", path=f"/page/calls/{in_path(known)}", given={}, done=f"The call {known} was ended."
    )


def restart(fields: Fields) -> FormRequest:
    """Return the RESUME that restarts an upstream."""
    require_button(fields, "restart")
    known = read_word(fields, "upstream")
    return FormRequest(
        method="RESUME", path=f"/page/upstreams/{in_path(known)}", given={}, done=f"{known} is being restarted."
    )


def revoke_contract(fields: Fields) -> FormRequest:
    """Return the REVOKE of a contract."""
    require_button(fields, "revoke")
    known = read_word(fields, "synthesis_id")
    given = {"target": "contract", "synthesis_id": known, **read_reason(fields)}
    return FormRequest(method="REVOKE", path="/", given=given, done=f"The contract {known} is revoked.")


def sweep(fields: Fields) -> FormRequest:
    """Return the REVOKE of contracts that cannot be used any more."""
    require_button(fields, "sweep")
    return FormRequest(
        method="REVOKE", path="/", given={"target": "stale-contracts"}, done="Stale contracts were swept."
    )


ACTIONS: Mapping[str, Callable[[Fields], FormRequest]] = {
    "allow": agent_rights.allow,
    "approve-definition": approve_definition,
    "decide": decide,
    "decide-all": decide_all,
    "decide-proposal": decide_proposal,
    "end-call": end_call,
    "lifecycle": lifecycle,
    "lift-limits": agent_rights.lift_limits,
    "limit": agent_rights.limit,
    "reload": configuration.reload,
    "reply": reply,
    "restart": restart,
    "revoke-contract": revoke_contract,
    "sweep": sweep,
    "take-back": agent_rights.take_back,
    "try-tool": tool_trial.try_tool,
}
"""The actions by the last segment of their path."""
