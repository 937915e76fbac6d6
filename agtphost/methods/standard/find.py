"""FIND: agents and entities that meet criteria (methods v01 section 3.5)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.dispatch.encoding import in_turns
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.methods.discovery.filters import CHECKS
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

LIMIT, MOST = 10, 100
AGENTS, CARDS, LOCAL = "agents", "cards", "local"
NAMESPACES: Final = (AGENTS, CARDS, LOCAL)
ZONE: Final = "zone:"

WORDS: Final = ("intent", "text", "query")
"""Members of criteria that say in words what is wanted; the others have to hold exactly."""

STEP: Final = 50
"""Endpoints that are looked at in one go."""

METHODS: Final = "methods"
"""What an agent has to offer: one method, or several."""


@implementer(IBuiltInHandler)
class Finding:
    """The handler of FIND, which searches hosted agents, endpoints and tools, and the registry where there is one."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the FIND call.

        :raises Refusal: 404 for a namespace that there is not; 422 for criteria that cannot be read.
        """
        given = context.input
        criteria = given["criteria"]
        criteria = {"intent": criteria} if isinstance(criteria, str) else dict(criteria)
        if not criteria:
            raise parameters.invalid("criteria", "criteria has no member.", 'Send {"capability": "analysis"}, or "*".')
        limit = parameters.count(given, "limit", LIMIT, MOST)
        namespace, zone = self._namespace(given.get("namespace"))
        words = next((criteria[name] for name in WORDS if name in criteria), None)
        if words is not None and (not isinstance(words, str) or not words.strip()):
            raise parameters.invalid("criteria", "criteria.intent is not text.", "Describe in words what you want.")
        exact = {name: value for name, value in criteria.items() if name not in WORDS}
        if zone:
            await self._require_zone(context, zone)
            if exact.setdefault("governance_zone", zone) != zone:
                raise Refusal(Reason.NOTHING_FOUND)  # No agent is in two zones.
        found: list[dict[str, Any]] = []
        total = 0
        if namespace in (None, AGENTS, LOCAL):
            entities = await self._find_hosted(context, words, exact, namespace)
            total, found = len(entities), entities[:limit]
        if namespace in (None, CARDS) and self._parts.find("FIND", "/cards") is not None and not zone:
            cards = await self._cards(context, words, exact, strict=namespace == CARDS)
            total += len(cards)
            found += cards[: max(limit - len(found), 0)]
        if not found:
            raise Refusal(Reason.NOTHING_FOUND)
        return {"entities": found, "total": total, "namespace": given.get("namespace") or "any"}

    def _namespace(self, named: Any) -> tuple[str | None, str]:
        """Return the namespace to search, and the zone that it is bound to."""
        if named is None:
            return None, ""
        if named == self._parts.server_id or self._parts.address.local_path(named) in ("/", "/agents"):
            return LOCAL, ""
        if named == CARDS and self._parts.find("FIND", "/cards") is None:
            raise Refusal(Reason.NAMESPACE_UNKNOWN, details={"parameter": "namespace"})
        if named in NAMESPACES:
            return str(named), ""
        if named.startswith(ZONE):
            return AGENTS, named
        raise Refusal(Reason.NAMESPACE_UNKNOWN, details={"parameter": "namespace"})

    async def _require_zone(self, context: BuiltInContext, zone: str) -> None:
        """
        Require that the caller sees an agent in a zone: one that is hidden is unknown, as one that isn't there.

        :raises Refusal: 404 ``namespace-unknown`` otherwise.
        """
        if not await self._find_hosted(context, None, {"governance_zone": zone}, AGENTS):
            raise Refusal(Reason.NAMESPACE_UNKNOWN, details={"parameter": "namespace"})

    async def _find_hosted(
        self, context: BuiltInContext, words: str | None, exact: Mapping[str, Any], namespace: str | None
    ) -> list[dict[str, Any]]:
        """Return candidates of this host, as DISCOVER finds them for the caller."""
        wanted = {name: value for name, value in exact.items() if name != METHODS}
        unknown = sorted(wanted.keys() - CHECKS.keys() - {"kinds", "category"})
        if unknown:
            if namespace is None and self._parts.find("FIND", "/cards") is not None:
                return []  # Members that cards have, and agents do not.
            raise parameters.invalid(
                "criteria", f"criteria has no member {unknown[0][:64]!r}.", f"Use {', '.join(sorted(CHECKS))}, methods."
            )
        asked: dict[str, Any] = {"criteria": words or "*", "max_results": MOST}
        if wanted or namespace == AGENTS or METHODS in exact:
            asked["filter"] = wanted | ({"kinds": ["agent"]} if METHODS in exact or namespace == AGENTS else {})
        try:
            answer = await context.invoke("DISCOVER", "/", asked)
        except Refusal as refusal:
            if refusal.status == Status.UNPROCESSABLE:
                refusal.details = {"parameter": "criteria", **refusal.details}
            raise
        methods = exact.get(METHODS)
        listed = [methods] if isinstance(methods, str) else methods
        if listed is not None and not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
            raise parameters.invalid("criteria", "criteria.methods is not a list of methods.", 'Send ["VALIDATE"].')
        found = answer["results"]
        if listed is not None:
            found = await in_turns(self._filter_offering(context, found, frozenset(listed)), self._parts.reactor)
        return [{"namespace": AGENTS if each["kind"] == "agent" else LOCAL, **each} for each in found]

    def _filter_offering(
        self, context: BuiltInContext, found: Sequence[Mapping[str, Any]], methods: frozenset[str]
    ) -> Generator[None, None, list[Mapping[str, Any]]]:
        """Return the found agents that offer the caller every given method."""
        bound: dict[str, list[Binding]] = {method: [] for method in methods}
        for binding in self._parts.listed():
            if binding.method in bound:
                bound[binding.method].append(binding)
        offering = []
        for each in found:
            agent: Agent | None = self._parts.directory.by_id(str(each.get("agent_id")))
            if agent is None:
                continue
            for candidates in bound.values():
                if not (yield from self._offers(context, agent, candidates)):
                    break
            else:
                offering.append(each)
            yield
        return offering

    @staticmethod
    def _offers(context: BuiltInContext, agent: Agent, candidates: Sequence[Binding]) -> Generator[None, None, bool]:
        """Return whether an agent offers the caller one of these methods."""
        for number, binding in enumerate(candidates, 1):
            if (not binding.agents or agent.agent_id in binding.agents) and (
                context.invocation is None or context.invocation.admits_at(binding, agent)
            ):
                return True
            if not number % STEP:
                yield
        return False

    async def _cards(
        self, context: BuiltInContext, words: str | None, exact: Mapping[str, Any], *, strict: bool
    ) -> list[dict[str, Any]]:
        """Cards of the registry, as FIND of ``/cards`` finds them for the caller."""
        asked: dict[str, Any] = {"query": "" if words in (None, "*") else words, "top": MOST}
        if exact:
            asked["filters"] = dict(exact)
        try:
            answer = await context.invoke("FIND", "/cards", asked)
        except Refusal as refusal:
            if strict or refusal.status != 422:
                raise
            return []  # Members that agents have, and cards do not.
        return [{"namespace": CARDS, "kind": "card", **each} for each in answer["results"]]


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the built-in of FIND, by method."""
    return {"FIND": Finding(parts)}
