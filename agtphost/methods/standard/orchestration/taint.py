"""
Code that GENERATE made reaches RUN only past VALIDATE or a person (methods v01 sections 4.12 and 10.4).

Between calls there is a mark (:mod:`agtphost.dispatch.generated_code`). Within a chain, what a step gives is followed
by name to the steps that use it: a chain in which code would flow to RUN is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agtphost.contract.recipes.expression import MARK as EXPRESSION
from agtphost.contract.recipes.expression import Expression
from agtphost.dispatch.generated_code import texts
from agtphost.errors import Refusal
from agtphost.methods.standard.orchestration.planned_step import Planned
from agtphost.vocabulary.reasons import Reason

_GENERATES, _CLEARS, _RUNS = "GENERATE", "VALIDATE", "RUN"


def check_taint(steps: Sequence[Planned]) -> tuple[Planned, ...]:
    """
    Follow generated code through a chain.

    A VALIDATE in between clears the names that it is given; the step of the chain that it is then says so, and the
    chain does not go on behind it where it finds anything wrong.

    :raises Refusal: 403 where code would come to RUN without.
    """
    dirty: dict[str, frozenset[str]] = {}
    last = ""
    kept = []
    for planned in steps:
        method = planned.step.method
        names = used_steps(planned, last)
        reached: frozenset[str] = frozenset().union(*(dirty.get(name, frozenset()) for name in names))
        if method == _CLEARS:
            names = _target(planned, last)
            looked_at: frozenset[str] = frozenset().union(*(dirty.get(name, frozenset()) for name in names))
            # What was made of it is as sound as it is.
            dirty = {name: sources - looked_at for name, sources in dirty.items()}
            planned, reached = replace(planned, cleared=looked_at), frozenset()
        elif method == _RUNS and reached:
            raise Refusal(
                Reason.GENERATED_CODE,
                f"Step {planned.step.number} would RUN with what {', '.join(sorted(reached))} generates.",
                details={"parameter": "steps", "entry": planned.step.number},
            )
        if method == _GENERATES and _may_be_code(planned):
            reached |= {planned.name}
        dirty[planned.name] = reached
        last = planned.name
        kept.append(planned)
    return tuple(kept)


def used_steps(planned: Planned, last: str) -> frozenset[str]:
    """Return the earlier steps whose outcome a step uses; ``last`` is the step that ``previous`` means."""
    step = planned.step
    names = frozenset(step.input.names if step.input is not None else ())
    names |= frozenset(step.parameters.names if step.parameters is not None else ())
    return frozenset(last if name == "previous" else name for name in names)


def _target(planned: Planned, last: str) -> frozenset[str]:
    """Return the earlier steps whose outcome a VALIDATE checks, not those that it merely uses."""
    given = planned.step.input
    value = None if given is None else given.value
    target = value.get("target") if isinstance(value, Mapping) else None
    looked_at = used_steps(planned, last)
    found: set[str] = set()
    for text in texts(target):
        if text.startswith(EXPRESSION):
            found |= Expression(text[len(EXPRESSION) :]).names
    return looked_at & frozenset(last if name == "previous" else name for name in found)


def _may_be_code(planned: Planned) -> bool:
    given = planned.step.input
    value = None if given is None else given.value
    kind = value.get("output_type") if isinstance(value, Mapping) else None
    return not (isinstance(kind, str) and kind in ("text", "json", "html", "markdown"))
