"""Compositions through the real gates and dispatcher: order, authority, failure, time (AGTP-API section 12.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from agtphost.contract.binding import Binding
from agtphost.contract.recipes.recipe import Recipe
from agtphost.contract.schemas import compile_schema
from agtphost.errors import Refusal
from agtphost.handlers.composition import Composition
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.iagtp import IHandler
from agtphost.identity.peer import Assurance, Peer
from agtphost.testing.reactor import MemoryReactor
from agtphost.vocabulary.reasons import ForeignReason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response
from tests.contract.recipes import recipe_text, sound
from tests.dispatch.hosts import CALLER, HOSTED, SCHEMA, DispatchHost, Recorder, certificate, document, payload
from tests.rows import each_row

FAILED = frozenset({"composition_failed"})


def step(name: str, answer: Callable[[EndpointContext], Any] | None = None, **members: Any) -> Binding:
    """A binding that a recipe calls."""
    method, _, path = name.partition(" ")
    members.setdefault("state_changing", False)
    return Binding(method=method, path=path, handler=Recorder(answer), tier="B", **members)


class RecipeHost:
    """A host whose ``PLAN /trip`` is answered by a recipe."""

    def __init__(self, recipe: Recipe | str, *steps: Binding, **members: Any) -> None:
        if isinstance(recipe, str):
            (recipe,) = sound(recipe)
        self.clock = MemoryReactor()
        members.setdefault("state_changing", True)
        self.binding = Binding(
            method="PLAN",
            path="/trip",
            handler=Composition(recipe, self.clock),
            tier="B",
            errors=FAILED,
            extra={"recipe": recipe.name, "recipe_version": recipe.version},
            **members,
        )
        self.host = DispatchHost(bindings=[*steps, self.binding])
        self.host.clock = self.clock
        self.steps = steps

    def calls(self, index: int) -> Sequence[EndpointContext]:
        handler: Any = self.steps[index].handler
        return handler.calls  # type: ignore[no-any-return]

    def start(self, body: Any = None, **options: Any) -> list[Response]:
        """Begin a call; the list gets the response once it is there."""
        answers: list[Response] = []
        self.host.start("PLAN", "/trip", {} if body is None else body, **options).addCallback(answers.append)
        return answers

    def call(self, body: Any = None, **options: Any) -> dict[str, Any]:
        """The body of a response that must be there at once."""
        (answer,) = self.start(body, **options)
        return document(answer)


QUERY = recipe_text(
    "digest",
    'QUERY /papers/{topic}\ncapture = "found"',
    'SUMMARIZE /text\ninput = { text = "=found.text", words = 7, none = "=found.none" }\ncapture = "short"',
    more='output = { summary = "=short.summary", source = "=found.source" }',
)


def papers(context: EndpointContext) -> Any:
    return {"text": f"all about {context.path_parameters['topic']}", "source": "library"}


def test_steps_run_in_order_and_hand_on_what_they_found() -> None:
    """API-127: QUERY then SUMMARIZE, without application code; the outer path parameter is percent-encoded."""
    on = RecipeHost(
        QUERY,
        step("QUERY /papers/{topic}", papers),
        step("SUMMARIZE /text", lambda context: {"summary": context.input["text"].upper()}),
    )
    result = on.call({"topic": "tea & cake/%"})["result"]
    assert result == {"summary": "ALL ABOUT TEA & CAKE/%", "source": "library"}
    assert on.calls(1)[0].input == {"text": "all about tea & cake/%", "words": 7}
    assert on.calls(0)[0].path == "/papers/tea%20%26%20cake%2F%25"
    assert verifyObject(IHandler, on.binding.handler)


def test_every_step_is_sealed_and_the_whole_names_them() -> None:
    """Each step has its record with the caller's Task-ID; the last record lists their Audit-IDs."""
    on = RecipeHost(QUERY, step("QUERY /papers/{topic}", papers), step("SUMMARIZE /text", lambda c: {"summary": "s"}))
    on.call({"topic": "tea"}, headers={"Task-ID": "task-1", "Agent-ID": CALLER})
    records = [draft.payload for draft in on.host.ledger.drafts]
    assert [record["path"] for record in records] == ["/papers/tea", "/text", "/trip"]
    assert {record["task_id"] for record in records} == {"task-1"}
    assert {record["caller_id"] for record in records} == {CALLER}
    assert records[2]["extra"] == {"recipe": "digest", "recipe_version": "1"}
    invoked = records[2]["invoked"]
    assert isinstance(invoked, list) and len(invoked) == 2 and all(len(one) == 64 for one in invoked)
    assert "invoked" not in records[0]


def test_the_addressed_agent_stays_addressed() -> None:
    """A composition offered by one agent calls what that agent offers."""
    on = RecipeHost(
        recipe_text("a", "QUERY /own"),
        step("QUERY /own", agents=frozenset({HOSTED})),
        agents=frozenset({HOSTED}),
    )
    on.host.start("PLAN", "/agents/librarian/trip", {})
    assert [draft.payload["status"] for draft in on.host.ledger.drafts] == [200, 200]
    assert payload(on.host, 0)["path"] == "/agents/librarian/own"


# Failure


def test_a_failed_step_is_told_in_full() -> None:
    """API-126: recipe, number, method, status and what was captured before; in the 422's details."""
    taken = EndpointError("room_unavailable", {"room": "attic"})
    on = RecipeHost(
        recipe_text("trip", 'QUERY /volume\ncapture = "book"', 'BOOK /room\ncapture = "stay"', "QUERY /never"),
        step("QUERY /volume", lambda context: {"title": "Emma"}),
        step("BOOK /room", lambda context: taken, errors=frozenset({"room_unavailable"})),
        step("QUERY /never"),
    )
    body = on.call()
    assert (body["status"], body["reason"]) == (422, "composition_failed")
    details = body["details"]
    assert {name: details[name] for name in ("recipe", "recipe_version", "step", "method", "path", "status")} == {
        "recipe": "trip",
        "recipe_version": "1",
        "step": 2,
        "method": "BOOK",
        "path": "/room",
        "status": 422,
    }
    assert details["reason"] == "room_unavailable"
    assert details["captured"] == {"book": {"title": "Emma"}}
    assert len(details["step_details"]["audit_id"]) == 64
    assert on.calls(2) == []
    assert payload(on.host)["invoked"], "a failed composition names its calls too"


def test_a_surprise_in_a_step_leaks_nothing() -> None:
    """A 500 of a step is 500 and its Audit-ID, not its message."""

    def broken(context: EndpointContext) -> Any:
        raise RuntimeError("secret-canary")

    on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", broken))
    body = on.call()
    assert body["details"]["status"] == 500
    assert "secret-canary" not in str(body)


def test_continue_goes_on_and_captures_nothing() -> None:
    """``on_error = "continue"``: the capture is null, and later steps run."""
    on = RecipeHost(
        recipe_text(
            "a",
            'QUERY /one\ncapture = "one"\non_error = "continue"',
            'QUERY /two\ninput = { one = "=one.x", fixed = 1 }\ncapture = "two"',
        ),
        step("QUERY /one", lambda context: EndpointError("undeclared")),
        step("QUERY /two"),
    )
    assert on.call()["result"] == {"echo": {"fixed": 1}}


@pytest.mark.parametrize(("wanted", "called"), [(True, 1), (False, 0)])
def test_when_decides_whether_a_step_runs(wanted: bool, called: int) -> None:
    """A step left out is no failure; its capture is null."""
    on = RecipeHost(
        recipe_text("a", 'QUERY /one\nwhen = "input.wanted"\ncapture = "one"', more='output = { one = "=one.echo" }'),
        step("QUERY /one"),
    )
    result = on.call({"wanted": wanted})["result"]
    assert len(on.calls(0)) == called
    assert result == ({"one": {}} if wanted else {})


@each_row("value", ["..", ".", "", None, {"a": 1}, ["x"], "x" * 1025])
def test_values_that_would_change_a_path_are_refused(value: Any) -> None:
    """T-SC-55: a caller's value is one segment of the step's path or nothing at all."""
    on = RecipeHost(recipe_text("a", "QUERY /papers/{topic}"), step("QUERY /papers/{topic}"))
    body = on.call({"topic": value})
    assert body["details"]["reason"] == "invalid-step-input"
    assert on.calls(0) == []


def test_expressions_that_do_not_suit_the_data() -> None:
    """Input that is no object, and a function applied to the wrong kind: the step fails, not the host."""
    for line in ('input = "=input.list"', 'input = { n = "=abs(input.list)" }'):
        on = RecipeHost(recipe_text("a", f"QUERY /one\n{line}"), step("QUERY /one"))
        assert on.call({"list": [1]})["details"]["reason"] == "invalid-step-input"
    on = RecipeHost(recipe_text("a", "QUERY /one", more='output = "=abs(input.list)"'), step("QUERY /one"))
    assert on.call({"list": [1]})["details"]["reason"] == "invalid-output"


# Authority


def test_missing_scopes_stop_everything_before_the_first_step() -> None:
    """API-128: the endpoint requires the union, so the caller gets 262 and no step runs."""
    on = RecipeHost(
        recipe_text("a", "QUERY /one", "QUERY /two"),
        step("QUERY /one"),
        step("QUERY /two", required_scopes=("vault:open",)),
        required_scopes=("vault:open",),
    )
    assert on.call()["reason"] == "scope-required"
    assert (on.calls(0), on.calls(1)) == ([], [])


def test_a_step_is_checked_again_with_the_callers_own_authority() -> None:
    """T-SC-50: where registration could not know (the control: no union here), the step's gate says 262."""
    on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", required_scopes=("vault:open",)))
    details = on.call()["details"]
    assert (details["status"], details["reason"]) == (262, "scope-required")
    assert on.calls(0) == []


def test_a_narrowed_claim_stays_narrow_inside() -> None:
    """T-SC-50: what the caller did not claim for this request, no step has."""
    on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", required_scopes=("booking:desk",)))
    headers = {"Agent-ID": CALLER, "Authority-Scope": "documents:query"}
    assert on.call({}, headers=headers)["details"]["status"] == 262
    assert on.call({}, headers={"Agent-ID": CALLER, "Authority-Scope": "booking:desk"})["status"] == 200
    assert on.calls(0)[0].scopes == {"booking:desk"}


SCOPES = ("booking:desk", "booking:room", "documents:query")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from([*SCOPES, "vault:open"])), min_size=1, max_size=4),
    st.sets(st.sampled_from(SCOPES)),
)
def test_authority_never_exceeds_the_callers(required: list[set[str]], claimed: set[str]) -> None:
    """T-SC-60, security invariant 7: over any recipe, a step runs only with scopes that the request claimed."""
    names = [f"QUERY /s{number}" for number in range(len(required))]
    bindings = [step(name, required_scopes=tuple(sorted(scopes))) for name, scopes in zip(names, required, strict=True)]
    on = RecipeHost(recipe_text("a", *(f'{name}\non_error = "continue"' for name in names)), *bindings)
    headers = {"Agent-ID": CALLER, "Authority-Scope": ", ".join(sorted(claimed))}
    assert on.call({}, headers=headers)["status"] == 200
    for index, scopes in enumerate(required):
        assert len(on.calls(index)) == (1 if scopes <= claimed else 0)
        assert all(call.scopes == claimed for call in on.calls(index))


def test_the_property_would_notice_authority_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of T-SC-60: with steps that claim all that the caller ever may, it does not hold."""
    monkeypatch.setattr("agtphost.dispatch.invocation.scopes.render", lambda tokens: "booking:*, documents:query")
    on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", required_scopes=("booking:desk",)))
    on.call({}, headers={"Agent-ID": CALLER, "Authority-Scope": "documents:query"})
    assert len(on.calls(0)) == 1


def test_input_is_checked_alike_for_every_kind_of_handler() -> None:
    """API-156: the same invalid input, the same 422, whatever would have answered."""
    schema = compile_schema(SCHEMA, role="input")
    on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", input_schema=schema), input_schema=schema)
    composed = on.call({"text": 1})
    plain = document(on.host.ask("QUERY", "/one", {"text": 1}))
    assert composed == plain and composed["reason"] == "invalid-input"
    assert composed["faults"][0]["path"] == "/text"


# Time


class Slow:
    """Answers when the test says so; remembers whether it was cancelled."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []
        self.cancelled = 0

    def __call__(self, context: EndpointContext) -> Deferred[Any]:
        def cancel(deferred: Deferred[Any]) -> None:
            self.cancelled += 1

        waiting: Deferred[Any] = Deferred(cancel)
        self.waiting.append(waiting)
        return waiting


PARALLEL = """\
[[recipe]]
name = "both"
version = "1"
description = "Two at once."
[[recipe.step]]
[[recipe.step.parallel]]
method = "QUERY"
path = "/one"
capture = "one"
[[recipe.step.parallel]]
method = "QUERY"
path = "/two"
capture = "two"
"""


def test_parallel_steps_run_at_once() -> None:
    """Both have begun before either has ended; the result is both, by capture."""
    one, two = Slow(), Slow()
    on = RecipeHost(PARALLEL, step("QUERY /one", one), step("QUERY /two", two))
    answers = on.start()
    assert (len(one.waiting), len(two.waiting), answers) == (1, 1, [])
    two.waiting[0].callback({"n": 2})
    one.waiting[0].callback({"n": 1})
    assert document(answers[0])["result"] == {"one": {"n": 1}, "two": {"n": 2}}


def test_a_parallel_failure_waits_for_the_others() -> None:
    """What the other step did is captured, so the caller knows all that happened."""
    two = Slow()
    on = RecipeHost(PARALLEL, step("QUERY /one", lambda context: EndpointError("nope")), step("QUERY /two", two))
    answers = on.start()
    assert answers == []
    two.waiting[0].callback({"n": 2})
    details = document(answers[0])["details"]
    assert (details["step"], details["captured"]) == (1, {"two": {"n": 2}})


def test_a_step_has_its_own_time() -> None:
    """A step's timeout ends it, not the endpoint's; the called handler is cancelled and recorded."""
    slow = Slow()
    on = RecipeHost(recipe_text("a", "QUERY /one\ntimeout = 2"), step("QUERY /one", slow))
    answers = on.start()
    on.clock.advance(1.9)
    assert answers == []
    on.clock.advance(0.2)
    details = document(answers[0])["details"]
    assert (details["step"], details["status"]) == (1, 408)
    assert slow.cancelled == 1
    assert [draft.payload["status"] for draft in on.host.ledger.drafts] == [408, 422]


def test_an_endpoint_out_of_time_begins_no_further_step() -> None:
    """408 for the whole, exactly one record each, and nothing runs afterwards (T-UP: deadline)."""
    slow = Slow()
    on = RecipeHost(
        recipe_text("a", 'QUERY /one\non_error = "continue"', "QUERY /two"),
        step("QUERY /one", slow),
        step("QUERY /two"),
        timeout=5.0,
    )
    answers = on.start()
    on.clock.advance(5.1)
    assert document(answers[0])["reason"] == "timeout"
    assert on.calls(1) == []
    assert sorted(str(draft.payload["path"]) for draft in on.host.ledger.drafts) == ["/one", "/trip"]
    assert on.clock.getDelayedCalls() == []


def test_retries_pause_and_stop() -> None:
    """A passing failure is tried again after a pause, as often as allowed; another kind is not."""
    failures = [
        Refusal(ForeignReason("busy", Status.UNAVAILABLE), "Busy."),
        Refusal(ForeignReason("busy", Status.UNAVAILABLE), "Busy."),
    ]

    def moody(context: EndpointContext) -> Any:
        if failures:
            raise failures.pop()
        return {"n": 1}

    on = RecipeHost(recipe_text("a", "QUERY /one\nretries = 2"), step("QUERY /one", moody))
    answers = on.start()
    assert (len(on.calls(0)), answers) == (1, [])
    on.clock.pump([0.2, 0.5])
    assert document(answers[0])["result"] == {"n": 1}
    assert len(on.calls(0)) == 3
    on = RecipeHost(recipe_text("a", "QUERY /one\nretries = 2"), step("QUERY /one", lambda c: EndpointError("no")))
    assert on.call()["details"]["status"] == 500
    assert len(on.calls(0)) == 1


def test_a_gone_caller_ends_what_changes_nothing() -> None:
    """Cancelled and sealed; but a composition that changes the world is finished."""
    for changes, ended in ((False, True), (True, False)):
        slow = Slow()
        on = RecipeHost(recipe_text("a", "QUERY /one"), step("QUERY /one", slow), state_changing=changes)
        peer = Peer(address="127.0.0.1", certificate=certificate())
        answers = on.start({}, peer=peer)
        for leave in tuple(peer.leaving):
            leave()
        assert (slow.cancelled == 1) is ended
        assert bool(answers) is ended
        if ended:
            assert document(answers[0])["reason"] == "cancelled"
            assert [draft.payload["status"] for draft in on.host.ledger.drafts] == [408, 408]
        else:
            slow.waiting[0].callback({})
            assert document(answers[0])["status"] == 200
        assert peer.leaving == set()


def test_large_captures_are_named_only() -> None:
    """A failure does not repeat a megabyte; the names say what there was."""
    on = RecipeHost(
        recipe_text("a", 'QUERY /one\ncapture = "big"', "QUERY /two"),
        step("QUERY /one", lambda context: {"text": "x" * 70_000}),
        step("QUERY /two", lambda context: EndpointError("no")),
    )
    details = on.call()["details"]
    assert details["captured"] == {} and details["captured_names"] == ["big"]


def test_an_anonymous_caller_reaches_anonymous_steps_only() -> None:
    """Assurance shrinks no less than scope: a step for named callers answers 401 to nobody's composition."""
    on = RecipeHost(recipe_text("a", "QUERY /public"), min_assurance=Assurance.NONE)
    assert on.call({}, peer=Peer(address="127.0.0.1"))["status"] == 200
    on = RecipeHost(recipe_text("a", "QUERY /words"), min_assurance=Assurance.NONE)
    assert on.call({}, peer=Peer(address="127.0.0.1"))["details"]["status"] == 401
