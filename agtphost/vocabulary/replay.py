"""Turn the call of a record into a question to the host's gates of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def build_decision_query(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Return the parameters of INSPECT ``target=decision`` for the call of a record; None where it cannot be asked again.

    A record without a call has no question, and neither has the call of an operator.

    :param payload: what was signed.
    """
    method = payload.get("requested_method") or payload.get("method")
    if not method or "event_type" in payload:
        return None
    asked: dict[str, Any] = {"method": method, "path": payload.get("path") or "/"}
    if payload.get("reason"):
        # The reason of that time is sent too, so that it can be compared with today's decision.
        asked["reason"] = payload["reason"]
    if payload.get("method") == "EXECUTE":
        sought = _read_execute_target(payload)
        if sought is None:
            return None
        asked.update(input=sought, partial=True)
    extra = payload.get("extra")
    if isinstance(extra, dict) and isinstance(extra.get("input_shape"), dict):
        asked["input_shape"] = extra["input_shape"]
    if "operator" in payload and not payload.get("caller_id"):
        return None  # The gates are asked about agents and strangers; an operator is neither.
    if payload.get("caller_id"):
        asked.update(agent_id=payload["caller_id"], assurance=payload.get("identity_assurance"))
    elif claimed := claimed_of(payload):
        named = {claimed[name] for name in ("agent_id", "certificate_agent_id") if claimed.get(name)}
        if len(named) > 1:
            return None  # The claims contradict each other.
        known = "certificate" if claimed.get("certificate_agent_id") else "header"
        for agent_id in named:
            asked.update(agent_id=agent_id, assurance=known)
    return asked


def _read_execute_target(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the target that an EXECUTE named, as far as its record has it; None where the record has none."""
    extra = payload.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    if not extra.get("action"):
        return None
    server = extra.get("mcp_server")
    named: dict[str, Any] = {}
    if extra.get("mcp_tool"):
        named["tool"] = f"{server}.{extra['mcp_tool']}"
    elif extra.get("tool"):
        named["tool"] = extra["tool"]
    elif server:
        named["server"] = server
    for member, name in (
        ("mcp_resource", "uri"),
        ("mcp_prompt", "prompt"),
        ("a2a_agent", "agent"),
        ("acp_server", "server"),
    ):
        if extra.get(member):
            named[name] = extra[member]
    asked = {"action": extra["action"], **({"payload": named} if named else {})}
    return {**asked, "payload_type": extra["payload_type"]} if extra.get("payload_type") else asked


def claimed_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims of a caller that were not verified."""
    extra = payload.get("extra")
    claimed = extra.get("claimed") if isinstance(extra, dict) else None
    return claimed if isinstance(claimed, dict) else {}
