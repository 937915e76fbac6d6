"""INSPECT ``target=records`` and ``target=running``: calls of all agents, past and present, for overseers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.filters import FIELDS, FilterError, RecordFilter
from agtphost.audit.filters.fields import read_time
from agtphost.audit.filters.query_text import split_terms
from agtphost.audit.observed_records import members_of
from agtphost.dispatch.running_calls import RunningCall
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.log_context import CALL
from agtphost.iagtp import CountedBy, IAgentDirectory, IRecordStore, LatestRecords, Search
from agtphost.identity import envelope
from agtphost.methods.inspection.inspect import entries
from agtphost.methods.inspection.record_counts import news_to_json, summary_to_json, to_stamp
from agtphost.vocabulary.display_names import CONFIRMED_AS, display_name, is_unproven
from agtphost.vocabulary.display_names import call as spoken_call
from agtphost.vocabulary.identifiers import is_agent_id

PAGE = 200
"""Records of one answer."""

FIELD_OF = {"caller_id": "caller", "task_id": "task", **{name: name for name in FIELDS}}
"""Parameters, and the fields of the filter language that they are; ``filter`` takes a whole text of that language."""

MEMBERS = (
    *("issued_at", "method", "path", "status", "reason", "caller_id", "agent_id", "identity_assurance", "task_id"),
    *("session_id", "response_id", "event_type", "operator", "acting_principal_id"),
)
"""Of a record, as far as a list shows it: the whole of it is ``target=audit``."""

EXTRA = ("action", "mcp_server", "mcp_tool", "tool", "a2a_agent", "acp_server", CONFIRMED_AS)
"""Of its ``extra``: what an EXECUTE called, and the person who decided."""

UNCOUNTED = "Records with a text are found by reading them, so they cannot be counted."

SAID = "Only operators see the calls of all agents; an agent sees its own chain."


def ids_of_name(directory: IAgentDirectory, name: str) -> list[str]:
    """Return the Agent-IDs of the known agents with a name."""
    return [agent.agent_id for agent in directory.list_known() if agent.name == name]


def known_names(directory: IAgentDirectory) -> Iterator[str]:
    """Yield the names of the known agents."""
    return (agent.name for agent in directory.list_known())


class Records:
    """
    Tells overseers of records across all chains, newest first.

    :param records: the store's reading side.
    :param directory: knows the labels of agents.
    :param now: what relative times are counted from, in seconds since the Unix epoch.
    """

    def __init__(
        self,
        records: IRecordStore,
        authorization: Authorization,
        directory: IAgentDirectory,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._directory = directory
        self._authorization = authorization
        self._now = now

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        List records as ``{"records": [...], "before": N}``; ``before`` continues the list, and is null at its end.

        A page may have fewer records than ``limit``, or none, although the list goes on; ``reached`` says to what time
        it came. With ``count``, the result has ``counts`` in place of ``records``, those of several pages to be added.
        With ``summary``, it has the counts of :func:`agtphost.methods.inspection.record_counts.summary_to_json`; with
        ``first_since``, what no record before that time has; with ``last_of``, when each of these agents called last.
        With ``signed``, each record has its signed octets.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers; 422 for a filter that cannot be used.
        """
        self._authorization.require_looking(context, SAID)
        given = context.input
        if given.get("first_since") is not None:
            return await self._find_new(given)
        if given.get("last_of") is not None:
            return await self._find_last(given["last_of"])
        search = self._read_search(given)
        if given.get("summary") in (True, "true"):
            return await self._summarize(search)
        before = parameters.count(given, "before", 0, 2**53) or None
        if (by := self._counted_by(given, search)) is not None:
            return await self._count(by, before, search)
        found = await self._records.latest(before, parameters.count(given, "limit", 50, PAGE), search)
        return {
            "records": await self._list(found, signed=given.get("signed") in (True, "true")),
            "damaged": [{"number": number, "why": why} for number, why in found.damaged],
            "before": found.before,
            **({} if found.reached is None else {"reached": to_stamp(found.reached)}),
        }

    def _read_search(self, given: Mapping[str, Any]) -> Search:
        """
        Return the search of a query's parameters.

        :raises agtphost.errors.Refusal: 422 for a parameter that cannot be used.
        """
        filter_text = parameters.text(given, "filter") or ""
        terms = [(field, value) for name, field in FIELD_OF.items() if (value := _term(given, name)) is not None]
        try:
            wanted = RecordFilter.from_terms([*split_terms(filter_text), *terms], self._now())
            return wanted.to_search(partial(ids_of_name, self._directory), partial(known_names, self._directory))
        except FilterError as error:
            named = next((name for name, field in FIELD_OF.items() if field == error.field and name in given), "filter")
            raise parameters.invalid(named, error.explanation, error.remedy) from None

    async def _summarize(self, search: Search) -> Mapping[str, Any]:
        if search.text:
            raise parameters.invalid("summary", UNCOUNTED, "Leave text out.")
        found = await self._records.summarize(int(self._now() * 1_000), search)
        shown: Mapping[str, Any] = await self._records.offload(partial(summary_to_json, found))
        return {**shown, "agents": self._name_agents(shown["agents"]), **self._describe_naming()}

    def _describe_naming(self) -> Mapping[str, bool]:
        """
        Return a member that says whether counts by agent include calls that only named the agent.

        The index has no column for how surely the caller of a call was known, and the host believed the name.
        """
        return {"names_believed": True} if self._authorization.believes_names else {}

    async def _find_new(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what no record before a time has."""
        try:
            since = read_time("first_since", parameters.require_text(given, "first_since"), self._now(), ends=False)
        except FilterError as error:
            raise parameters.invalid("first_since", error.explanation, error.remedy) from None
        new, others = await self._records.new_facets(since)
        shown: Mapping[str, Any] = await self._records.offload(partial(news_to_json, new, others))
        named = {part: self._name_agents(shown[part]) for part in ("agents", "refusals")}
        return {"since": to_stamp(since), **shown, **named}

    async def _find_last(self, agents: object) -> Mapping[str, Any]:
        """Return when each of these agents called last; those that never called are left out."""
        if not isinstance(agents, list) or len(agents) > PAGE or not all(map(_is_agent, agents)):
            explanation = f"The parameter last_of must be a list of at most {PAGE} Agent-IDs."
            raise parameters.invalid("last_of", explanation, "Send the Agent-IDs that INSPECT target=agents lists.")
        found = await self._records.last_calls(agents)
        return {"last": [{"agent_id": agent, "issued_at": to_stamp(at)} for agent, at in sorted(found.items())]}

    def _name_agents(self, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Add the names of agents that the host knows, by the member ``value``."""
        named: list[Mapping[str, Any]] = []
        for entry in entries:
            agent = self._directory.by_id(entry["value"]) if is_agent_id(entry["value"]) else None
            named.append(entry if agent is None else {**entry, "name": agent.display_name})
        return named

    @staticmethod
    def _counted_by(given: Mapping[str, Any], search: Search) -> CountedBy | None:
        if given.get("count") is None:
            return None
        by = CountedBy(parameters.choice(given, "count", [each.value for each in CountedBy]))
        if search.text:
            raise parameters.invalid("count", UNCOUNTED, "Leave text out.")
        return by

    async def _count(self, by: CountedBy, before: int | None, search: Search) -> Mapping[str, Any]:
        found = await self._records.count(by, before, search)
        counts: list[dict[str, Any]] = []
        for value, number in sorted(found.counts.items(), key=lambda item: (-item[1], item[0])):
            agent = self._directory.by_id(value) if by is CountedBy.AGENT and value else None
            named = {} if agent is None else {"name": agent.display_name}
            counts.append({"value": value, "records": number, **named})
        naming = self._describe_naming() if by is CountedBy.AGENT else {}
        return {"count": by.value, "counts": counts, "before": found.before, **naming}

    async def _list(self, found: LatestRecords, *, signed: bool) -> list[dict[str, Any]]:
        records = [record for _, record in found.records]
        shown: list[dict[str, Any]] = await self._records.offload(partial(_describe, records, signed=signed))
        numbered = zip(found.records, shown, strict=True)
        return [{"number": number, **self._add_labels(entry)} for (number, _), entry in numbered]

    def _add_labels(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Add the labels of agents that the host knows."""
        for member, agent_id in (("caller", shown.get("caller_id")), ("agent", shown["chain"])):
            agent = self._directory.by_id(str(agent_id)) if agent_id else None
            if agent is not None:
                shown[member] = agent.display_name
        return shown


def _is_agent(value: object) -> bool:
    return isinstance(value, str) and is_agent_id(value)


def _term(given: Mapping[str, Any], name: str) -> str | None:
    """Return a parameter as the value of a field; a status may be a number."""
    value = given.get(name)
    if name == "status" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return parameters.text(given, name)


def _describe(records: Sequence[StoredRecord], *, signed: bool) -> list[dict[str, Any]]:
    """Return records for a list, with their signed octets where these are wanted."""
    if not signed:
        return [brief(record) for record in records]
    return [{**brief(record), **shown} for record, shown in zip(records, entries(records), strict=True)]


def brief(record: StoredRecord) -> dict[str, Any]:
    """Return the short form of a record for a list."""
    if record.format == envelope.JWS:
        # Readers of a list do not verify signatures: the payload is enough, and 200 signatures are long.
        payload = members_of(record.signed.decode("ascii"))
    else:
        payload = envelope.parse_unverified(record.format, record.signed)
    extra = payload.get("extra")
    called = {name: extra[name] for name in EXTRA if extra.get(name)} if isinstance(extra, dict) else {}
    shown = {name: payload[name] for name in MEMBERS if payload.get(name) not in (None, "")}
    if "caller_id" in shown:
        shown["caller_proven"] = not is_unproven(payload)
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
        List running calls as ``{"running": [...]}``, the longest first, with the seconds of each.

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
