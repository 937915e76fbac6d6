"""INSPECT ``target=records`` and ``target=running``: calls of all agents, past and present, for overseers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.observed_records import members_of
from agtphost.dispatch.running_calls import RunningCall
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.log_context import CALL
from agtphost.iagtp import IAgentDirectory, IRecordStore, Search
from agtphost.identity import envelope
from agtphost.vocabulary.display_names import call as spoken_call
from agtphost.vocabulary.display_names import display_name

PAGE = 200
"""Records of one answer."""

HOST = "host"
"""What ``chain`` says to name the host's own."""

MEMBERS = (
    *("issued_at", "method", "path", "status", "reason", "caller_id", "agent_id", "identity_assurance", "task_id"),
    *("session_id", "response_id", "event_type"),
)
"""Of a record, as far as a list shows it: the whole of it is ``target=audit``."""

EXTRA = ("action", "mcp_server", "mcp_tool", "tool", "a2a_agent", "acp_server")
"""Of its ``extra``: what an EXECUTE called."""

SAID = "The calls of all agents are shown to operators; each agent reads its own chain."


class Records:
    """
    Tells overseers of records across all chains, newest first.

    :param records: the store's reading side.
    :param directory: knows the labels of agents.
    """

    def __init__(self, records: IRecordStore, authorization: Authorization, directory: IAgentDirectory) -> None:
        self._records = records
        self._directory = directory
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Return ``{"records": [...], "before": N}``; ``before`` continues the list, and is null at its end.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, SAID)
        given = context.input
        chain = parameters.text(given, "chain")
        status = parameters.count(given, "status", 0, 999)
        search = Search(
            chain=HOST_CHAIN if chain == HOST else chain,
            caller=parameters.text(given, "caller_id"),
            method=parameters.text(given, "method"),
            path=parameters.text(given, "path"),
            status=status or None,
            reason=parameters.text(given, "reason"),
            task_id=parameters.text(given, "task_id"),
        )
        before = parameters.count(given, "before", 0, 2**53) or None
        found = await self._records.latest(before, parameters.count(given, "limit", 50, PAGE), search)
        return {
            "records": [{"number": number, **self._add_labels(brief(record))} for number, record in found.records],
            "damaged": [{"number": number, "why": why} for number, why in found.damaged],
            "before": found.before,
        }

    def _add_labels(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Add the labels of agents that the host knows."""
        for member, agent_id in (("caller", shown.get("caller_id")), ("agent", shown["chain"])):
            agent = self._directory.by_id(str(agent_id)) if agent_id else None
            if agent is not None:
                shown[member] = agent.name
        return shown


def brief(record: StoredRecord) -> dict[str, Any]:
    """A record in a list."""
    if record.format == envelope.JWS:
        # Readers of a list do not verify signatures: the payload is enough, and 200 signatures are long.
        payload = members_of(record.signed.decode("ascii"))
    else:
        payload = envelope.parse_unverified(record.format, record.signed)
    extra = payload.get("extra")
    called = {name: extra[name] for name in EXTRA if extra.get(name)} if isinstance(extra, dict) else {}
    shown = {name: payload[name] for name in MEMBERS if payload.get(name) not in (None, "")}
    return {
        "audit_id": record.audit_id,
        "chain": record.chain,
        "seq": record.seq,
        "kind": record.kind,
        **shown,
        **called,
        "called": display_name(payload),
    }


class Running:
    """
    Tells overseers of calls that wait.

    :param running: all of them.
    :param now: seconds since the Unix epoch.
    """

    def __init__(
        self, running: Callable[[], Sequence[RunningCall]], authorization: Authorization, now: Callable[[], float]
    ) -> None:
        self._running = running
        self._authorization = authorization
        self._now = now

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Return ``{"running": [...]}``, the longest first, with the seconds of each.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers.
        """
        self._authorization.require_looking(context, SAID)
        now = self._now()
        own = CALL.get()
        calls = [call for call in self._running() if own is None or call.response_id != own.response_id]
        shown = [
            {
                **asdict(call),
                "called": spoken_call(call.method, call.path, call.name),
                "seconds": round(max(now - call.since, 0.0), 3),
            }
            for call in calls[:PAGE]
        ]
        return {"running": shown, "count": len(calls)}
