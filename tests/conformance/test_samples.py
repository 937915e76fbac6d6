"""Inputs that the runner makes by the schemas of a target, which may be hostile."""

from __future__ import annotations

from typing import Any

from agtphost.conformance.samples import samples_of
from tests.rows import each_row

LARGE = 10**5


@each_row("rule, made", (
    ({"type": "array", "minItems": 3, "items": {"type": "string"}}, True),
    ({"type": "string", "minLength": 70}, True),
    ({"type": "array", "minItems": LARGE}, False),
    ({"type": "string", "minLength": LARGE}, False),
    ({"type": "array", "minItems": 100, "items": {"type": "array", "minItems": LARGE}}, False),
))  # fmt: skip
def test_a_target_does_not_choose_how_much_is_made(rule: dict[str, Any], made: bool) -> None:
    """A schema that requires much has no samples: 10**9 items would occupy the runner until its memory is full."""
    samples = samples_of({"type": "object", "properties": {"a": rule}, "required": ["a"]})
    assert samples is not None
    assert (samples.valid() is not None) is made
