"""
ROUTE: methods v01 section 8.4.

Chooses the handler of a payload, and calls none. First come the rules, in their order; then what candidates say of
themselves, compared with the criteria's own members; then search: by which words of the payload, or of the criterion
``text``, a candidate's description is found. Candidates that cannot be called now are skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState
from agtphost.contract.binding import Binding
from agtphost.contract.recipes.expression import MARK, Expression, ExpressionError
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.agents import Agent
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.standard.orchestration import call_readers, plan
from agtphost.methods.standard.orchestration.call_readers import Find
from agtphost.search.engine import SearchEngine
from agtphost.search.index import SearchEntry, SearchQuery
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason

MOST_CANDIDATES: Final = 100
MOST_RULES: Final = 100
LONGEST_PAYLOAD: Final = 65_536
LONGEST_TEXT: Final = 4_000
"""Characters of what is searched by."""

OWN: Final = ("rules", "text")
"""Criteria that are not members of candidates."""


@dataclass(frozen=True, kw_only=True)
class RouteCandidate:
    """A possible handler of a payload."""

    id: str
    """As the caller names it: an Agent-ID, an agent's name, or ``METHOD /path``."""

    says: Mapping[str, Any] = field(default_factory=dict)
    """Its members besides ``id``, as the caller gives them."""

    handler: Mapping[str, str] | None = None
    """The handler that the candidate resolves to; None where this caller cannot call one now."""

    text: str = ""
    """What it is found by."""


@implementer(IBuiltInHandler)
class Route:
    """
    The handler of ROUTE.

    :param offload: calls a function off the reactor.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: Callable[[Agent], LifecycleState],
        visibility: Visibility,
        find: Find,
        search: SearchEngine,
        offload: Callable[..., Awaitable[Any]],
    ) -> None:
        self._directory = directory
        self._states = states
        self._visibility = visibility
        self._find = find
        self._search = search
        self._offload = offload

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Choose a handler for the payload.

        :raises Refusal: 404 where no candidate matches and no fallback is given, 503 where no match can be called.
        """
        owner_of(context)
        given = context.input
        payload = parameters.read_json(given, "payload", LONGEST_PAYLOAD)
        rules, criteria = self._criteria(given)
        candidates = [self._resolve_candidate(context, each) for each in _list_candidates(given, rules)]
        by_id = {each.id: each for each in candidates}
        scope = {"payload": payload, **(payload if isinstance(payload, dict) else {})}
        held = await self._offload(_first, rules, scope) if rules else []
        matched: list[tuple[RouteCandidate, dict[str, Any]]] = [
            (by_id[rules[number][1]], {"by": "rule", "rule": number + 1}) for number in held
        ]
        wanted = {name: value for name, value in criteria.items() if name not in OWN}
        if wanted:
            fits = (each for each in candidates if _fits(each.says, wanted))
            matched.extend((each, {"by": "criteria", "criteria": sorted(wanted)}) for each in fits)
        if (not rules and not wanted) or criteria.get("text") is not None:
            text = str(criteria.get("text") or " ".join(_texts(payload)))[:LONGEST_TEXT]
            matched.extend([pair async for pair in self._search_candidates(candidates, text)])
        return self._decide(context, given.get("fallback"), matched)

    def _criteria(self, given: Mapping[str, Any]) -> tuple[list[tuple[Expression, str]], Mapping[str, Any]]:
        value = given.get("criteria")
        if isinstance(value, list):
            value = {"rules": value}
        if not isinstance(value, Mapping):
            raise parameters.invalid("criteria", "criteria is neither rules nor an object.", "Send rules.")
        rules = value.get("rules", [])
        if not isinstance(rules, list) or len(rules) > MOST_RULES:
            raise parameters.invalid("criteria", f"rules is not a list of up to {MOST_RULES} rules.", "Send fewer.")
        plan.require_few((str(rule.get("when", "")) for rule in rules if isinstance(rule, Mapping)), "criteria")
        return [_rule(rule, number) for number, rule in enumerate(rules, 1)], value

    def _resolve_candidate(self, context: BuiltInContext, named: RouteCandidate) -> RouteCandidate:
        """Resolve a candidate on this host, and whether it can be called now."""
        method, space, path = named.id.partition(" ")
        if space and path.startswith("/"):
            binding = call_readers.find_binding(self._find, method, path)
            if binding is None or not context.admits(binding):
                return named
            return _endpoint(named, binding, path)
        agent = self._directory.by_id(named.id) if is_agent_id(named.id) else self._directory.by_name(named.id)
        if agent is None or not (agent.hosted or self._visibility.is_own(context, agent)):
            return named
        if not self._visibility.in_lists(context)(agent):
            return named
        told = {"agent_id": agent.agent_id, "name": agent.name, "uri": f"agtp://{agent.agent_id}"}
        text = f"{agent.name} {' '.join(sorted(agent.scopes))} {jsontext.encode(dict(named.says)).decode()}"
        serves = not self._states(agent).is_stopped and named.says.get("available", True) is not False
        return RouteCandidate(id=named.id, says=named.says, handler=told if serves else None, text=text)

    async def _search_candidates(self, candidates: Sequence[RouteCandidate], text: str) -> Any:
        if not text.strip() or not candidates:
            return
        index = self._search.index([SearchEntry(name=each.id, text=each.text or each.id) for each in candidates])
        found = await self._search.search(index, SearchQuery(text=text, among=bytes([1]) * len(candidates), limit=10))
        for number, score in found.hits:
            yield candidates[number], {"by": "search", "score": round(float(score), 4)}

    def _decide(
        self, context: BuiltInContext, fallback: Any, matched: Sequence[tuple[RouteCandidate, dict[str, Any]]]
    ) -> Answer:
        for candidate, why in matched:
            if candidate.handler is not None:
                return _answer(candidate.id, candidate.handler, why)
        if fallback is not None:
            candidate = self._resolve_candidate(context, RouteCandidate(id=str(fallback)))
            return _answer(candidate.id, candidate.handler, {"by": "fallback"})
        if matched:
            names = list(dict.fromkeys(candidate.id for candidate, _ in matched))
            headers = (("Retry-After", "30"),)
            raise Refusal(Reason.ROUTE_UNAVAILABLE, details={"candidates": names}, headers=headers)
        raise Refusal(Reason.ROUTE_UNMATCHED)


def _rule(rule: Any, number: int) -> tuple[Expression, str]:
    if not isinstance(rule, Mapping) or set(rule) != {"when", "to"} or not isinstance(rule["to"], str):
        raise call_readers.wrong("criteria", number, "lacks when or to", "Send when, as JMESPath, and to.")
    try:
        expression = Expression(str(rule["when"]).removeprefix(MARK))
    except ExpressionError as error:
        raise call_readers.wrong(
            "criteria", number, f"has invalid JMESPath: {error}", "Send JMESPath over the payload."
        ) from None
    if expression.spread > 1:
        raise call_readers.wrong("criteria", number, "builds lists out of lists", "Send a simpler expression.")
    return expression, rule["to"]


def _list_candidates(given: Mapping[str, Any], rules: Sequence[tuple[Expression, str]]) -> Iterator[RouteCandidate]:
    """Yield the candidates that the caller gives, and those that its rules name."""
    listed = given.get("candidates") or []
    if not isinstance(listed, list) or len(listed) > MOST_CANDIDATES:
        raise parameters.invalid("candidates", f"candidates is not a list of up to {MOST_CANDIDATES}.", "Send fewer.")
    seen: set[str] = set()
    for number, entry in enumerate(listed, 1):
        name = entry.get("id") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or not 0 < len(name) <= call_readers.LONGEST_PATH:
            raise call_readers.wrong(
                "candidates", number, "names nobody", "Send an Agent-ID, or an object that has id."
            )
        says = {key: value for key, value in entry.items() if key != "id"} if isinstance(entry, Mapping) else {}
        if name not in seen:
            seen.add(name)
            yield RouteCandidate(id=name, says=says)
    for _, name in rules:
        if name not in seen:
            seen.add(name)
            yield RouteCandidate(id=name)


def _endpoint(named: RouteCandidate, binding: Binding, path: str) -> RouteCandidate:
    text = f"{binding.display_name} {binding.description} {jsontext.encode(dict(named.says)).decode()}"
    handler = {"method": binding.method, "path": path}
    serves = named.says.get("available", True) is not False
    return RouteCandidate(id=named.id, says=named.says, handler=handler if serves else None, text=text)


def _first(rules: Sequence[tuple[Expression, str]], scope: Mapping[str, Any]) -> list[int]:
    """Return the places of the rules that hold, in order; one that the payload does not suit does not hold."""
    held = []
    for number, (expression, _) in enumerate(rules):
        try:
            if expression.holds(scope):
                held.append(number)
        except ExpressionError:
            continue
    return held


def _fits(says: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a candidate has every wanted value; of a list on either side, one is enough."""
    for name, value in wanted.items():
        own = says.get(name)
        if (
            value != own
            and not (isinstance(own, list) and value in own)
            and not (isinstance(value, list) and own in value)
        ):
            return False
    return True


def _texts(payload: Any) -> Iterator[str]:
    waiting = [payload]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _answer(name: str, handler: Mapping[str, str] | None, why: Mapping[str, Any]) -> Answer:
    decision = {"handler": name, **({} if handler is None else {"resolved": dict(handler)}), "decision": dict(why)}
    return Answer(result=decision, extra={"route": {"handler": name[:128], "by": why["by"]}})
