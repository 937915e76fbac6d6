"""INSPECT ``target=several``: the questions of a view in one request, which is one record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.methods.continuation import HEADER, PARAMETER

SEVERAL: Final = "several"

MOST_QUESTIONS: Final = 16
"""Questions of one request: no view of the page asks more than ten."""

ALONE: Final = frozenset({SEVERAL, "feed", "backup"})
"""Targets that need a separate request: they wait, or are put on record themselves."""

Read = Callable[[BuiltInContext], Awaitable[Answer]]
"""Answers one question, by the input of its context."""


async def read_several(context: BuiltInContext, read: Read) -> Mapping[str, Any]:
    """
    Answer several questions, each of which has the parameters of an INSPECT, in their order.

    The result is ``{"answers": [...]}``. An answer has ``status`` and ``result``, and ``continuation_token`` where its
    list goes on; that of a refused question has ``status``, ``reason``, ``explanation`` and ``remedy``. Each question
    is decided as if it came alone.

    :param read: answers one of them.
    :raises agtphost.errors.Refusal: 422 for questions that cannot be read.
    """
    questions = _read_questions(context)
    asked = [Deferred.fromCoroutine(_answer(replace(context, input=question), read)) for question in questions]
    answers: list[Mapping[str, Any]] = await gatherResults(asked, consumeErrors=True)
    return {"answers": answers}


def _read_questions(context: BuiltInContext) -> Sequence[Mapping[str, Any]]:
    questions = context.input.get("questions")
    if not isinstance(questions, list) or not 0 < len(questions) <= MOST_QUESTIONS:
        explanation = f"The parameter questions must be a list of 1 to {MOST_QUESTIONS} objects."
        raise parameters.invalid("questions", explanation, "Give each the parameters of one INSPECT.")
    for question in questions:
        if not isinstance(question, dict) or question.get("target") in ALONE:
            explanation = f"Each of questions must be an object, whose target is none of {', '.join(sorted(ALONE))}."
            raise parameters.invalid("questions", explanation, "Ask for these targets in separate requests.")
    return questions


async def _answer(context: BuiltInContext, read: Read) -> Mapping[str, Any]:
    try:
        found = await read(context)
    except Refusal as refusal:
        shown = {"reason": str(refusal.reason), "explanation": refusal.explanation, "remedy": refusal.remedy}
        return {
            **refusal.details,
            "status": int(refusal.status),
            **{name: text for name, text in shown.items() if text},
        }
    more = dict(found.headers).get(HEADER)
    return {"status": int(found.status), "result": found.result, **({PARAMETER: more} if more else {})}
