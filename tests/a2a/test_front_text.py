"""What plain text of an A2A client fills, where the operator has not said: ``[[a2a.front.agent]] text``."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.a2a.messages import RpcFault, describe_input, input_of, text_member
from agtphost.contract.built_in_contracts import contract_of
from tests.rows import each_row

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}

SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a text": ({"properties": {"text": TEXT, "more": TEXT}}, {}, "text"),
    "a required text": ({"properties": {"text": TEXT, "more": TEXT}, "required": ["text"]}, {}, "text"),
    "the one required": ({"properties": {"isbn": TEXT, "more": TEXT}, "required": ["isbn"]}, {}, "isbn"),
    "of several types": ({"properties": {"any": {"type": ["string", "null"]}}, "required": ["any"]}, {}, "any"),
    "of any type": ({"properties": {"any": {}}, "required": ["any"]}, {}, "any"),
    "the other is fixed": ({"properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]}, {"a": "x"}, "b"),
    "text is fixed": ({"properties": {"text": TEXT, "b": TEXT}}, {"text": "x"}, ""),
    "a number": ({"properties": {"nights": NUMBER}, "required": ["nights"]}, {}, ""),
    "text is a number": ({"properties": {"text": NUMBER}}, {}, ""),
    "text and another": ({"properties": {"text": TEXT, "b": TEXT}, "required": ["text", "b"]}, {}, ""),
    "two required": ({"properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]}, {}, ""),
    "nothing required": ({"properties": {"a": TEXT}}, {}, ""),
    "no schema": ({}, {}, ""),
}


@each_row("name", SCHEMAS)
def test_text_fills_the_one_member_that_takes_it(name: str) -> None:
    """``text``, or the only required member that the operator has not fixed; else the agent takes data alone."""
    schema, template, member = SCHEMAS[name]
    assert text_member(schema, template) == member


def test_a_question_to_the_host_fills_its_intent() -> None:
    """``QUERY /`` is what a front's agent calls where nothing else is configured."""
    assert text_member(contract_of("QUERY", "/").input_schema("/"), {}) == "intent"


def test_plain_text_to_an_agent_of_data_is_refused_with_its_input() -> None:
    """What to send is named, what is required first; what the operator fixed, and what every method takes, is not."""
    schema = {"properties": {"guest": TEXT, "room": TEXT, "nights": NUMBER, "context": {}}, "required": ["nights"]}
    with pytest.raises(RpcFault) as refused:
        input_of({"parts": [{"text": "a room, please"}]}, {"room": "12"}, (), schema)
    assert refused.value.code == -32005
    assert refused.value.message == (
        "This agent takes data parts and no plain text. Send one data part, an object with: nights (required), guest."
    )
    many = {"properties": {f"m{number:02}": TEXT for number in range(40)}}
    assert describe_input(many, {}).endswith("m15, and more.")
    assert describe_input({}, {}) == ""
