"""
PLAN: core v08 section 7.2.6.

A plan is made of what its caller could call at that moment (design decision
14): those endpoints and tools whose words cover the goal, and those whose
output has what the chosen ones need as input. Nothing is executed. An operator
who has a better planner declares an endpoint ``PLAN /``, which takes this
one's place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zope.interface import implementer

from agtphost.agis.goal_values import goal_values, name_files
from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.cognitive import relevance
from agtphost.methods.cognitive.query import Corpus, read_question, text_of, words_of
from agtphost.methods.cognitive.relevance import Question
from agtphost.search.word_stems import terms
from agtphost.vocabulary.catalog import is_method_name
from agtphost.vocabulary.reasons import Reason

MOST_STEPS = 20
LEAST = 0.05
"""How much of the goal a step must add."""

MOST_ALIKE = 32
"""Candidates that share the same words of a goal and are compared by the parameters that it names."""

FILE = terms("file")[0]
"""The term that replaces the name of a file in a goal."""

DEEPEST = 3
"""Steps that only prepare the input of other steps, one behind the other."""

_VALUE = re.compile(
    r"\"[^\"]{1,200}\"|(?<!\w)'[^']{1,200}'(?!\w)|(?<==)[^\s\"']{1,200}|(?<![^\s])\w[^\s.@:\"']{0,99}[.@:]\w[^\s\"']{0,200}"
    r"|(?<![\w.])[0-9]{1,20}(?!\w)"
)
"""What looks like a value in a goal: quoted, after ``=``, with a dot, ``@`` or ``:`` inside, or a number."""

KNOWN = ("max_steps", "methods", "exclude_methods", "scopes", "impact", "max_calls")
IMPACTS = ("informational", "reversible", "irreversible")


@dataclass(slots=True)
class StepCandidate:
    """An endpoint or tool that could become a step of a plan."""

    binding: Binding
    words: frozenset[str]
    shared: frozenset[str]
    properties: Mapping[str, Any]
    required: Sequence[str]
    gives: Mapping[str, Any]
    is_named: bool = False
    """Whether the goal has its name, as lists show it: ``files.read_file``."""

    named: Mapping[str, Any] = field(default_factory=dict)
    """Values of its parameters that the goal names."""

    @property
    def hints(self) -> Mapping[str, Any]:
        """The endpoint's ``parameter_hints``: words that people use for its parameters."""
        semantic = self.binding.details.get("semantic") or {}
        hints = semantic.get("parameter_hints") if isinstance(semantic, Mapping) else None
        return hints if isinstance(hints, Mapping) else {}

    @property
    def impact(self) -> str:
        """The impact of a call, such as ``informational`` or ``irreversible``."""
        semantic = self.binding.details.get("semantic") or {}
        default = "irreversible" if self.binding.state_changing else "informational"
        return str(semantic.get("impact") or default)


@dataclass(slots=True)
class Draft:
    """A plan in the making: candidates in their order, and where each input comes from."""

    steps: list[StepCandidate] = field(default_factory=list)
    origins: dict[tuple[int, str], int] = field(default_factory=dict)
    """(id of the candidate, input member) to the id of the candidate that gives it."""


@implementer(IBuiltInHandler)
class Planning:
    """Answers PLAN on ``/``."""

    kind = "built_in"

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the PLAN call.

        :raises Refusal: 422 for a goal that cannot be read, or that nothing here comes near to.
        """
        given = context.input
        text, goal = read_question(given, "goal")
        limits, ignored = _read_constraints(given)
        document = await self._corpus.offload(self._draft_plan, context, text, goal, limits, ignored, _methods(given))
        return Answer(result=document)

    def _draft_plan(
        self,
        context: BuiltInContext,
        text: str,
        goal: Any,
        limits: Mapping[str, Any],
        ignored: list[str],
        methods: frozenset[str] | None,
    ) -> dict[str, Any]:
        known = goal if isinstance(goal, dict) else {}
        candidates = self._candidates(context, limits, methods)
        words = _goal_words(text, known, candidates)
        names = frozenset(candidate.binding.name for candidate in candidates)
        for candidate in candidates:
            candidate.is_named = _has_name(text, candidate.binding.name)
        wished = words
        if any(FILE in candidate.words for candidate in candidates):
            wished = name_files(words, names)
        question = _ask(_drop_values(wished, names), candidates)
        chosen = _covering(question, candidates, limits, text)
        if not chosen:
            question = _ask(words, candidates)
            chosen = _covering(question, candidates, limits, text)
        if not chosen:
            raise Refusal(Reason.GOAL_UNSATISFIABLE, details={"parameter": "goal", "considered": len(candidates)})
        for candidate in chosen:
            candidate.named = goal_values(text, candidate.properties, candidate.hints)
        draft = _chain_steps(chosen, candidates, known, limits["max_steps"])
        covered = frozenset[str]().union(*(candidate.shared for candidate in chosen))
        return _document(draft, question, covered, known, ignored)

    def _candidates(
        self, context: BuiltInContext, limits: Mapping[str, Any], methods: frozenset[str] | None
    ) -> list[StepCandidate]:
        # The floor's own methods read and administer; what reaches a goal are endpoints and tools.
        bindings = [binding for binding in self._corpus.endpoints(context) if binding.tier != "A"]
        found = []
        for binding in (*bindings, *self._corpus.tools(context)):
            candidate = _candidate(binding)
            if methods is not None and binding.method not in methods:
                continue
            if _is_permitted(candidate, limits):
                found.append(candidate)
        return found


def _candidate(binding: Binding) -> StepCandidate:
    taken = binding.input_schema.schema if binding.input_schema is not None else {}
    given = binding.output_schema.schema if binding.output_schema is not None else {}
    properties, gives = taken.get("properties"), given.get("properties")
    required = taken.get("required")
    return StepCandidate(
        binding=binding,
        words=words_of(text_of(binding)),
        shared=frozenset(),
        properties=properties if isinstance(properties, Mapping) else {},
        required=[name for name in required if isinstance(name, str)] if isinstance(required, list) else [],
        gives=gives if isinstance(gives, Mapping) else {},
    )


def _goal_words(text: str, known: Mapping[str, Any], candidates: Sequence[StepCandidate]) -> str:
    """Return the words of a goal, without members that are some candidate's input: those are facts."""
    inputs = {name for candidate in candidates for name in candidate.properties}
    wishes = {name: value for name, value in known.items() if name not in inputs}
    return relevance.said_in(wishes) if wishes else text


def _drop_values(text: str, names: Collection[str]) -> str:
    """
    Return a goal without what looks like a value: a file's name, an address, a number, a quotation.

    A step that shares only such a word has nothing to do with the goal: ``txt`` of "read welcome.txt" is also in the
    description of a tool that deletes notes.

    :param names: names of tools, which have dots but are not values.
    """
    return _VALUE.sub(lambda found: found[0] if found[0].strip("\"'.") in names else " ", text)


def _has_name(text: str, name: str) -> bool:
    """Return whether a goal has the name of a tool, and not only as a part of another name."""
    return (
        "." in name and name in text and re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)", text) is not None
    )


def _ask(text: str, candidates: Sequence[StepCandidate]) -> Question:
    """Return a question, and note what each candidate shares with it."""
    question = Question(text, [candidate.words for candidate in candidates])
    for candidate in candidates:
        candidate.shared = question.shared_terms(candidate.words)
    return question


# Constraints


def _read_constraints(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the limits of a plan, and the constraints that only a reader can judge."""
    value = parameters.read_json(given, "constraints", 8_192)
    limits: dict[str, Any] = {"max_steps": 8, "methods": None, "exclude_methods": (), "scopes": None, "impact": None}
    if value is None:
        return limits, []
    if not isinstance(value, dict):
        return limits, [f"Not checked: {relevance.said_in(value)[:500]}"]
    for name in ("max_steps", "max_calls"):
        limits["max_steps"] = min(limits["max_steps"], parameters.count(value, name, MOST_STEPS, MOST_STEPS))
    if "max_steps" in value and "max_calls" not in value:
        limits["max_steps"] = parameters.count(value, "max_steps", 8, MOST_STEPS)
    for name in ("methods", "exclude_methods", "scopes"):
        if value.get(name) is not None:
            limits[name] = _words(value[name], f"constraints.{name}")
    if value.get("impact") is not None:
        limits["impact"] = parameters.choice(value, "impact", IMPACTS)
    unknown = [name for name in value if name not in KNOWN]
    return limits, [f"Not checked: {name} = {relevance.said_in(value[name])[:200]}" for name in unknown]


def _words(value: Any, name: str) -> frozenset[str]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise parameters.invalid(name, f"{name} is not a list of words.", "Send a list.")
    return frozenset(value)


def _methods(given: Mapping[str, Any]) -> frozenset[str] | None:
    if given.get("available_methods") is None:
        return None
    methods = _words(given["available_methods"], "available_methods")
    if not all(is_method_name(method) for method in methods):
        raise parameters.invalid(
            "available_methods", "available_methods has an entry that is not a method.", "Send QUERY."
        )
    return methods


def _is_permitted(candidate: StepCandidate, limits: Mapping[str, Any]) -> bool:
    binding = candidate.binding
    if limits["methods"] is not None and binding.method not in limits["methods"]:
        return False
    if limits["scopes"] is not None and not set(binding.required_scopes) <= limits["scopes"]:
        return False
    if limits["impact"] is not None and IMPACTS.index(candidate.impact) > IMPACTS.index(limits["impact"]):
        return False
    return binding.method not in limits["exclude_methods"]


# Choosing and ordering


def _covering(
    question: Question, candidates: Sequence[StepCandidate], limits: Mapping[str, Any], text: str
) -> list[StepCandidate]:
    """
    Select candidates that the goal names, and those that cover it: each adds the most words to those before it.

    :param text: the goal. Of candidates that share the same of it, one is selected whose parameters it names.
    """
    chosen: list[StepCandidate] = []
    covered: frozenset[str] = frozenset()
    while len(chosen) < limits["max_steps"]:
        gains = [
            (
                candidate.is_named and bool(candidate.shared),
                question.weight(candidate.shared - covered),
                question.weight(candidate.shared),
            )
            for candidate in candidates
        ]
        left = [(gain, each) for gain, each in zip(gains, candidates, strict=True) if each not in chosen]
        best = max((gain for gain, _ in left), default=None)
        if best is None or (not best[0] and best[1] < LEAST):
            break
        alike = [each for gain, each in left if gain == best][:MOST_ALIKE]
        # The first of those that are alike in this, too.
        chosen.append(max(alike, key=lambda each: _count_named(each, text)) if len(alike) > 1 else alike[0])
        covered |= chosen[-1].shared
    return sorted(chosen, key=lambda candidate: _place(question, candidate))


def _count_named(candidate: StepCandidate, text: str) -> int:
    """Return how many parameters of a candidate a goal names."""
    return len(goal_values(text, candidate.properties, candidate.hints))


def _place(question: Question, candidate: StepCandidate) -> tuple[int, int]:
    """Return the sort key of a step: its first mention in the goal, then steps with less impact first."""
    first = min(question.terms.index(term) for term in candidate.shared)
    return first, IMPACTS.index(candidate.impact)


def _chain_steps(
    chosen: Sequence[StepCandidate], every: Sequence[StepCandidate], known: Mapping[str, Any], most: int
) -> Draft:
    """Return the chosen steps with the steps that give them their input, each after those it needs."""
    draft = Draft()
    coming = {id(candidate) for candidate in chosen}

    def place(candidate: StepCandidate, depth: int, above: frozenset[int]) -> None:
        if candidate in draft.steps:
            return
        for name in candidate.required:
            if name in known or name in candidate.named:
                continue
            giver = _find_provider(candidate, name, every, draft, above, coming)
            fits = giver is not None and (id(giver) in coming or len(coming) < most)
            if giver is None or not fits or depth >= DEEPEST:
                continue
            coming.add(id(giver))
            place(giver, depth + 1, above | {id(candidate)})
            if giver in draft.steps:
                draft.origins[id(candidate), name] = id(giver)
        draft.steps.append(candidate)

    for candidate in chosen:
        place(candidate, 0, frozenset())
    return draft


def _find_provider(
    taker: StepCandidate,
    name: str,
    every: Sequence[StepCandidate],
    draft: Draft,
    above: frozenset[int],
    coming: set[int],
) -> StepCandidate | None:
    """
    Find a step whose output has a member of that name and type: a planned step first, then one with little impact.
    """
    able = [
        candidate
        for candidate in every
        if candidate is not taker
        and id(candidate) not in above
        and name in candidate.gives
        and name not in candidate.required
        and _same_type(candidate.gives[name], taker.properties.get(name))
    ]
    for candidate in able:
        if candidate in draft.steps or id(candidate) in coming:
            return candidate
    return next((candidate for candidate in able if candidate.impact == "informational"), None)


def _same_type(given: Any, taken: Any) -> bool:
    one = given.get("type") if isinstance(given, Mapping) else None
    other = taken.get("type") if isinstance(taken, Mapping) else None
    if one is None or other is None:
        return True
    ones, others = (set(value if isinstance(value, list) else [value]) for value in (one, other))
    return not ones.isdisjoint(others) or ("number" in others and "integer" in ones)


# The document


def _document(
    draft: Draft,
    question: Question,
    covered: frozenset[str],
    known: Mapping[str, Any],
    ignored: Sequence[str],
) -> dict[str, Any]:
    numbers = {id(candidate): number for number, candidate in enumerate(draft.steps, 1)}
    steps = [_step(candidate, draft, numbers, known) for candidate in draft.steps]
    open_inputs = [f"Step {step['step']} needs {name}." for step in steps for name in step["needs"]]
    missing = [term for term in question.terms if term not in covered]
    assumptions = ["What can be called stays as it was when the plan was made.", *open_inputs, *ignored]
    if missing:
        assumptions.append(f"This host has nothing that matches: {', '.join(missing)}.")
    seconds = [step["estimate"]["seconds_at_most"] for step in steps if step["estimate"]["seconds_at_most"]]
    return {
        "ordered_steps": steps,
        "estimated_cost": {
            "calls": len(steps),
            "changes": sum(1 for step in steps if step["impact"] != "informational"),
            "seconds_at_most": sum(seconds) if len(seconds) == len(steps) else None,
        },
        "required_scopes": sorted({scope for step in steps for scope in step["required_scopes"]}),
        "confidence": round(question.weight(covered), 4),
        "assumptions": assumptions,
    }


def _step(
    candidate: StepCandidate, draft: Draft, numbers: Mapping[int, int], known: Mapping[str, Any]
) -> dict[str, Any]:
    binding = candidate.binding
    arguments: dict[str, Any] = {}
    after, needs, proposed = set(), [], []
    for name in candidate.properties:
        origin = draft.origins.get((id(candidate), name))
        if name in known:
            arguments[name] = known[name]
        elif name in candidate.named:
            arguments[name] = candidate.named[name]
            proposed.append(name)
        elif origin is not None:
            arguments[name] = {"from_step": numbers[origin], "member": name}
            after.add(numbers[origin])
        elif name in candidate.required:
            needs.append(name)
    step: dict[str, Any] = {
        "step": numbers[id(candidate)],
        "method": binding.method,
        "path": binding.path,
        "description": binding.description,
        "parameters": arguments,
        "needs": needs,
        "proposed": proposed,
        "after": sorted(after),
        "required_scopes": list(binding.required_scopes),
        "min_assurance": binding.min_assurance.label,
        "impact": candidate.impact,
        "idempotent": binding.idempotent,
        "estimate": {"calls": 1, "seconds_at_most": binding.timeout},
    }
    if binding.call is not None:
        step["parameters"] = binding.call.parameters(arguments)
    return step
