"""What holds around providers: endpoints of the operator's on TRANSLATE, PREDICT, GENERATE and RECOMMEND."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.methods.standard.pure.providers import constraint
from agtphost.testing import Answer, MemoryHost, TestAgent
from tests.rows import each_row

ANY: dict[str, Any] = {}
OFFERED = [
    {"item": {"id": 1, "name": "strap", "price": 20, "category": "photo", "in_stock": True}, "score": 0.9},
    {"item": {"id": 2, "name": "bag", "price": "80.00", "category": "photo", "in_stock": True}, "score": 0.8},
    {"item": {"id": 3, "name": "lamp", "price": 10, "category": "light", "in_stock": True}, "score": 0.7},
    {"item": {"id": 4, "name": "cloth", "price": 5, "category": "photo", "in_stock": False}, "score": 0.6},
    {"item": {"id": 5, "name": "filter", "category": "photo", "in_stock": True}, "score": 0.5},
    {"item": {"id": 6, "name": "tripod", "price": 45, "category": "photo", "in_stock": True}, "score": 0.4},
]


def host_with(method: str, answer: Callable[[Mapping[str, Any]], Any], **takes: Any) -> tuple[MemoryHost, TestAgent]:
    """A host whose operator provides a method."""
    host = MemoryHost({"methods": {"standard": "*"}})
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": dict.fromkeys(takes["names"], ANY),
    }
    host.endpoint(method, "/", lambda context: answer(context.input), input_schema=schema)
    return host, host.agent("caller")


@cache
def translating() -> tuple[MemoryHost, TestAgent]:
    names = ("content", "target_language", "source_language", "formality")
    return host_with("TRANSLATE", lambda given: {"content": f"[{given['content']}]"}, names=names)


def ask(made: tuple[MemoryHost, TestAgent], method: str, **given: Any) -> Answer:
    host, caller = made
    return host.call(method, "/", given, caller=caller)


def test_languages_are_looked_at_before_anybody_translates() -> None:
    """METH-011: BCP 47 first; the answer has the translation and both codes."""
    answer = ask(translating(), "TRANSLATE", content="Hello", target_language="de", source_language="en-GB")
    assert answer.status == 200, answer.result
    assert answer.result == {"content": "[Hello]", "source_language": "en-GB", "target_language": "de"}
    for name, tag in (("target_language", "german!"), ("source_language", "e")):
        answer = ask(translating(), "TRANSLATE", **{"content": "Hello", "target_language": "de", name: tag})
        assert (answer.status, answer.result["parameter"]) == (422, name)


@cache
def predicting() -> tuple[MemoryHost, TestAgent]:
    """A provider that answers what it is given."""
    names = ("input", "model_id", "confidence_floor", "explain")
    return host_with("PREDICT", lambda given: given["input"], names=names)


PREDICTIONS: list[tuple[dict[str, Any], float, int]] = [
    ({"prediction": "stays", "confidence": 0.8}, 0.5, 200),
    ({"prediction": "stays", "confidence": 0.8}, 0.9, 422),
    ({"prediction": "stays"}, 0.1, 422),
    ({"prediction": "stays", "confidence": "very"}, 0.1, 422),
    ({"prediction": "stays", "confidence": 7}, 0.1, 422),
    ({"prediction": "stays"}, 0, 200),
    ({"predictions": [{"confidence": 0.2}, {"confidence": 0.1}]}, 0.5, 422),
]


@each_row("answer, floor, status", PREDICTIONS)
def test_what_is_not_sure_is_no_result(answer: dict[str, Any], floor: float, status: int) -> None:
    """METH-013: below ``confidence_floor`` no result is returned, whatever the provider says."""
    found = ask(predicting(), "PREDICT", input=answer, confidence_floor=floor)
    assert (found.status, found.reason) == (status, "" if status == 200 else "confidence-too-low")
    assert status == 200 or "stays" not in str(found.document)


LABELLED: list[tuple[list[Any], dict[str, Any], Any]] = [
    ([{"label": "it", "confidence": 0.3}, {"label": "billing", "confidence": 0.6}], {}, ["billing"]),
    ([{"label": "it", "confidence": 0.3}, {"label": "other", "confidence": 0.6}], {}, ["it"]),
    ([{"label": "it", "confidence": 0.3}], {"confidence_threshold": 0.5}, []),
    (
        [{"label": "it", "confidence": 0.3}, {"label": "billing", "confidence": 1}],
        {"multi_label": True},
        ["billing", "it"],
    ),
    ([{"label": "it"}], {}, None),
    ([{"label": "it", "confidence": 2}], {}, None),
    (["it"], {}, None),
]


@each_row("labels, more, kept", LABELLED)
def test_labels_are_of_the_taxonomy(labels: list[Any], more: dict[str, Any], kept: list[str] | None) -> None:
    """METH-015: labels of the taxonomy alone, the surest one without ``multi_label``, none below the threshold."""
    names = ("items", "taxonomy", "multi_label", "confidence_threshold")
    made = host_with("CLASSIFY", lambda given: {"items": [{"labels": labels}]}, names=names)
    answer = ask(made, "CLASSIFY", items=["printer"], taxonomy=["it", "billing"], **more)
    if kept is None:
        assert (answer.status, answer.reason) == (500, "server-error")
        return
    assert [each["label"] for each in answer.result["items"][0]["labels"]] == kept
    assert ask(made, "CLASSIFY", items=["printer", "mouse"], taxonomy=["it"]).status == 500
    assert ask(made, "CLASSIFY", items=["printer"], taxonomy=[]).result["parameter"] == "taxonomy"


INVOICE = {
    "type": "object",
    "properties": {
        "due": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "customer": {"type": "object", "properties": {"name": {}, "city": {}}},
        "lines": {"type": "array"},
        "a/b": {"type": "string"},
    },
    "required": ["total"],
    "additionalProperties": False,
}
READ = {"due": "2026-06-15", "total": 12.5, "customer": {"name": "Ada", "city": "Graz"}}
LINES = {"total": 1, "lines": 0.9, "lines.0.m": 0.1}
SURE = {"due": 0.9, "total": 1, "customer.name": 0.8, "customer.city": 0.2}
EXTRACTED: list[tuple[Any, Any, dict[str, Any], Any]] = [
    (READ, SURE, {}, READ),
    (READ, SURE, {"confidence_threshold": 0.5}, {**READ, "customer": {"name": "Ada"}}),
    (READ, SURE, {"confidence_threshold": 0.95}, {"total": 12.5, "customer": {}}),
    ({**READ, "due": "soon"}, SURE, {}, {name: READ[name] for name in ("total", "customer")}),
    ({**READ, "extra": 1}, {**SURE, "extra": 1}, {}, READ),
    ({"due": "2026-06-15"}, {"due": 1}, {}, 422),
    ({**READ, "total": "12"}, SURE, {}, 422),
    (READ, {"due": 0.9}, {}, 500),
    (READ, {**SURE, "due": 2}, {}, 500),
    ([READ], SURE, {}, 500),
    (READ, {"due": 0.9, "total.x": 1, "customer": 1}, {}, 500),
    (READ, {"due": 0.9, "total": 1, "customer.name": 0.8}, {}, 500),
    (READ, {"due": 0.9, "total": 1, "customer": 1}, {"confidence_threshold": 0.5}, READ),
    (
        {"total": 1, "lines": [{"n": 1, "m": 2}]},
        LINES,
        {"confidence_threshold": 0.5},
        {"total": 1, "lines": [{"n": 1}]},
    ),
    ({"total": 1, "lines": [3]}, {"total": 1, "lines": 1, "lines.0": 0.1}, {"confidence_threshold": 0.5}, {"total": 1}),
    ({"total": 1, "a/b": 5}, {"total": 1, "a/b": 1}, {}, {"total": 1}),
]


@each_row("data, sure, more, kept", EXTRACTED)
def test_what_is_extracted_follows_the_schema(data: Any, sure: Any, more: dict[str, Any], kept: Any) -> None:
    """METH-007: a confidence for each field, none below the threshold, and data that follows the caller's schema."""
    names = ("source", "schema", "confidence_threshold")
    made = host_with("EXTRACT", lambda given: {"data": data, "confidence": sure}, names=names)
    answer = ask(made, "EXTRACT", source="Invoice", schema=INVOICE, **more)
    if isinstance(kept, int):
        assert answer.status == kept
        return
    assert (answer.status, answer.result["data"]) == (200, kept)
    assert {place.partition(".")[0] for place in answer.result["confidence"]} >= {name for name in kept if kept[name]}
    assert {*answer.result["not_found"]} >= INVOICE["properties"].keys() - kept.keys()


def test_a_schema_is_looked_at_before_anything_is_extracted() -> None:
    """METH-007: 422 that names the parameter, and no provider is asked."""
    seen: list[Any] = []
    made = host_with("EXTRACT", lambda given: seen.append(1) or {}, names=("source", "schema", "confidence_threshold"))
    for wrong in ({"type": "string"}, {"type": "object", "properties": {"a": {"type": "x"}}}):
        answer = ask(made, "EXTRACT", source="Invoice", schema=wrong)
        assert (answer.status, answer.result["parameter"]) == (422, "schema")
    for wrong in (" ", "x" * 200_001):
        answer = ask(made, "EXTRACT", source=wrong, schema=INVOICE)
        assert (answer.status, answer.result["parameter"]) == (422, "source")
    assert seen == []


@each_row("method", ["EXTRACT", "CLASSIFY"])
def test_without_a_provider_nothing_is_guessed(method: str) -> None:
    """METH-007, METH-015: 503 that says what to bind, and the method is in no list."""
    host = MemoryHost({"methods": {"standard": "*"}})
    given = {"EXTRACT": {"source": "a", "schema": INVOICE}, "CLASSIFY": {"items": ["a"], "taxonomy": ["b"]}}[method]
    answer = host.call(method, "/", given, caller=host.agent("caller"))
    assert (answer.status, answer.reason) == (503, "provider-missing")
    assert method not in {each.method for each in host.core.services.registry.admitted_bindings()}


def test_of_several_predictions_the_sure_ones_are_left() -> None:
    """METH-013: the draft's accounts of a segment: those above the floor."""
    both = {"predictions": [{"account": 1, "confidence": 0.9}, {"account": 2, "confidence": 0.3}]}
    answer = ask(predicting(), "PREDICT", input=both, confidence_floor=0.5)
    assert answer.result == {"predictions": [{"account": 1, "confidence": 0.9}]}


CONSTRAINTS: list[tuple[Any, list[int]]] = [
    (None, [1, 2, 3, 4, 5, 6]),
    ({"budget": 50}, [1, 3, 4, 6]),
    ({"budget": "50.00 EUR"}, [1, 3, 4, 6]),
    ({"category": "photo"}, [1, 2, 4, 5, 6]),
    ({"category": ["light"]}, [3]),
    ({"availability": True}, [1, 2, 3, 5, 6]),
    ({"exclusions": ["strap", 6]}, [2, 3, 4, 5]),
    ({"budget": 50, "category": "photo", "availability": True, "exclusions": ["Strap"]}, [6]),
    ({"price": {"gt": 15}}, [1, 6]),
]


@each_row("constraints, kept", CONSTRAINTS)
def test_constraints_are_limits(constraints: Any, kept: list[int]) -> None:
    """METH-019: what is outside is left out, and so is what does not say whether it is."""
    within = constraint(constraints)
    assert [each["item"]["id"] for each in OFFERED if within(each)] == kept


def test_what_cannot_be_a_limit() -> None:
    """METH-019: 422, rather than a limit that nobody holds."""
    for wrong in ("cheap", {"budget": "cheap"}, {"exclusions": 5}, {"price": {"like": 1}}, [1]):
        with pytest.raises(Refusal) as caught:
            constraint(wrong)
        assert caught.value.details["parameter"] == "constraints"


def test_recommendations_are_within_their_constraints() -> None:
    """METH-019: the draft's accessories within a budget: three at most, whatever the provider offers."""
    names = ("context", "goal", "constraints", "limit", "explain")
    made = host_with("RECOMMEND", lambda given: {"recommendations": OFFERED}, names=names)
    call = {"context": {"bought": ["camera"]}, "goal": "accessories", "limit": 3}
    limits = {"budget": 50, "availability": True}
    answer = ask(made, "RECOMMEND", **call, constraints=limits)
    assert [each["item"]["name"] for each in answer.result["recommendations"]] == ["strap", "lamp", "tripod"]
    assert answer.document["withheld"] == 3
    assert ask(made, "RECOMMEND", **call, constraints="cheap").status == 422
    broken = host_with("RECOMMEND", lambda given: {"items": OFFERED}, names=names)
    assert ask(broken, "RECOMMEND", **call).status == 500


def test_what_is_generated_is_what_was_asked_for() -> None:
    """METH-018: a provider that answers with another type of output is no answer."""
    names = ("output_type", "source", "format", "length", "style")
    made = host_with("GENERATE", lambda given: {"content": "x", "output_type": "text"}, names=names)
    assert ask(made, "GENERATE", output_type="text").result == {"content": "x", "output_type": "text"}
    assert ask(made, "GENERATE", output_type="code").status == 500
    assert ask(made, "GENERATE", output_type="poem").status == 422


def test_what_fields_mean_is_a_providers() -> None:
    """METH-034: ``MAP /semantic`` and ``MAP /custom`` of the operator say what equal names do not."""
    host = MemoryHost({"methods": {"standard": "*"}})
    caller = host.agent("caller")
    call = {"source_schema": ["id", "qty"], "target_schema": {"id": "string", "quantity": "integer"}}

    def mapped(**more: Any) -> Any:
        return host.call("MAP", "/", {**call, **more}, caller=caller)

    assert mapped().result["unmapped"] == {"source": ["qty"], "target": ["quantity"]}
    assert mapped().result["strategy"] == "exact"
    for strategy in ("semantic", "custom"):
        refused = mapped(strategy=strategy)
        assert (refused.status, refused.reason, refused.result["path"]) == (503, "provider-missing", f"/{strategy}")
        assert f"MAP /{strategy}" in refused.result["remedy"]
    host = MemoryHost({"methods": {"standard": "*"}})
    caller, answers = host.agent("caller"), [{"source": "qty", "target": "quantity", "confidence": 0.8}]
    schema = {"type": "object", "additionalProperties": False, "properties": {"source": ANY, "target": ANY}}
    host.endpoint("MAP", "/semantic", lambda context: {"fields": answers}, input_schema=schema)
    answer = mapped()
    assert answer.result["strategy"] == "semantic"
    assert answer.result["mapping"]["fields"] == [{**answers[0], "type": "integer"}]
    assert mapped(strategy="exact").result["mapping"]["fields"][0]["basis"] == "the same name"
    answers[0]["confidence"] = 2
    assert mapped().status == 500


def test_keywords_are_scored_by_a_provider() -> None:
    """METH-017: ``EVALUATE /keywords`` of the operator scores them, together with what a criterion declares."""
    call = {
        "target": {"text": "on time", "price": 2},
        "criteria": [{"name": "text", "keywords": ["punctual"]}, {"name": "price", "best": 0, "worst": 4}],
    }
    host = MemoryHost({"methods": {"standard": "*"}})
    refused = host.call("EVALUATE", "/", call, caller=host.agent("caller"))
    assert (refused.status, refused.reason, refused.result["path"]) == (503, "provider-missing", "/keywords")
    host, seen = MemoryHost({"methods": {"standard": "*"}}), []
    schema = {"type": "object", "additionalProperties": False, "properties": {"target": ANY, "criteria": ANY}}
    scores: list[dict[str, Any]] = [{"score": 1, "rationale": "On time is punctual."}]

    def answer(context: Any) -> Any:
        seen.append(context.input)
        return {"scores": scores}

    host.endpoint("EVALUATE", "/keywords", answer, input_schema=schema)
    caller = host.agent("caller")
    found = host.call("EVALUATE", "/", call, caller=caller).result
    assert [(each["score"], each["rationale"][:7]) for each in found["scores"]] == [(1, "On time"), (0.5, "2 lies ")]
    assert found["composite"] == 0.75
    criteria = [{"name": "text", "member": "text", "keywords": ["punctual"]}]
    assert seen == [{"target": call["target"], "criteria": criteria}]
    assert host.call("EVALUATE", "/", {**call, "criteria": ["price"]}, caller=caller).status == 200 and len(seen) == 1
    for wrong in ([], [{"score": 2}], [{}]):
        scores[:] = wrong
        assert host.call("EVALUATE", "/", call, caller=caller).status == 500


def test_an_address_is_a_providers() -> None:
    """METH-012: ``NORMALIZE /address`` of the operator is asked for addresses, and for nothing else."""
    host = MemoryHost({"methods": {"standard": "*"}})
    schema = {"type": "object", "additionalProperties": False, "properties": {"data": ANY, "locale": ANY}}
    host.endpoint(
        "NORMALIZE",
        "/address",
        lambda context: {"values": [{"original": context.input["data"], "canonical": "1 High St"}]},
        input_schema=schema,
    )
    caller = host.agent("caller")
    answer = host.call("NORMALIZE", "/", {"data": "1, High Street", "type": "address"}, caller=caller)
    assert answer.result["values"][0]["canonical"] == "1 High St"
    answer = host.call("NORMALIZE", "/", {"data": "3 May 2026", "type": "date"}, caller=caller)
    assert answer.result["values"][0]["canonical"] == "2026-05-03"


def test_a_proposed_call_is_looked_at_and_not_made() -> None:
    """METH-009: whether the caller could make it; who could not is told no more than that."""
    host = MemoryHost({"methods": {"standard": "*"}})
    made: list[Any] = []
    host.endpoint(
        "BOOK", "/room", lambda context: made.append(1), {"guest": "string"}, required_scopes=["booking:room"]
    )
    may, may_not = host.agent("guest", scopes=["booking:room"]), host.agent("stranger")
    call = {"method": "BOOK", "path": "/room", "parameters": {"guest": "Ada"}}

    def found(target: Any, caller: TestAgent) -> Any:
        return host.call("VALIDATE", "/", {"target": target, "schema": "call"}, caller=caller).result

    assert found(call, may)["valid"] is True
    assert found({**call, "parameters": {}}, may)["errors"][0]["rule"] == "required"
    hidden, unknown = found(call, may_not), found({**call, "path": "/none"}, may_not)
    assert hidden["valid"] is unknown["valid"] is False
    assert str(hidden).replace("/room", "/none") == str(unknown)
    assert made == []


def test_generated_code_runs_only_once_it_was_looked_at() -> None:
    """METH-059: code of a provider's GENERATE comes to RUN after a VALIDATE that found it sound, and not before."""
    host = MemoryHost({"methods": {"standard": ["GENERATE", "VALIDATE"]}})
    names = ("output_type", "source", "format", "length", "style")
    code = "print('hello')\nprint('again')"
    schema = {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(names, ANY)}
    host.endpoint("GENERATE", "/", lambda context: {"content": {"main.py": code}}, input_schema=schema)
    registry = {
        "type": "object",
        "additionalProperties": False,
        "required": ["procedure_id"],
        "properties": {"procedure_id": {"enum": ["deploy"]}, "input": {"type": "object"}},
    }
    ran: list[Any] = []
    host.endpoint("RUN", "/", lambda context: ran.append(1) or {"ran": True}, input_schema=registry)
    caller = host.agent("caller", scopes=("activation:run",))

    def run() -> tuple[int, str]:
        call = {"procedure_id": "deploy", "input": {"code": f"{code}\n"}}
        answer = host.call("RUN", "/", call, caller=caller)
        return answer.status, answer.reason

    def validate(**given: Any) -> Any:
        return host.call("VALIDATE", "/", {"target": code, **given}, caller=caller).result["valid"]

    assert run() == (200, "")
    host.call("GENERATE", "/", {"output_type": "text"}, caller=caller)
    assert run() == (200, "")
    host.call("GENERATE", "/", {"output_type": "code"}, caller=caller)
    assert run() == (403, "generated-code")
    # Nothing to check it against, and something that it breaks: nobody has looked at it.
    assert validate() is True and run() == (403, "generated-code")
    assert validate(schema={"type": "string", "maxLength": 5}) is False and run() == (403, "generated-code")
    assert validate(schema={"type": "string", "pattern": "^print"}) is True and run() == (200, "")
    assert len(ran) == 3


@each_row("method", ["PURCHASE", "RUN"])
def test_a_right_to_what_nothing_answers_is_not_offered(method: str) -> None:
    """A refusal for want of a scope ends in no command where no handler is bound: the command would be refused too."""
    host = MemoryHost({"methods": {"standard": "*"}})
    answer = host.call(method, "/", {}, caller=host.agent("caller"))
    assert (answer.status, answer.result["reason"]) == (455, "scope-required")
    assert answer.result["remedy"].startswith(f"No endpoint of this host answers {method}"), answer.result["remedy"]
