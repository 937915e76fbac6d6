"""PLAN makes a plan of what its caller may call, and calls nothing (core v08 section 7.2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.context import EndpointContext
from agtphost.identity.peer import Assurance
from tests.methods.floor_hosts import CALLER, OTHER, FloorHost, body_of, endpoint
from tests.methods.hosts import Toolbox
from tests.rows import each_row

CALLS: list[str] = []


def never(context: EndpointContext) -> Any:
    CALLS.append(context.path)
    return {}


def taking(**properties: str) -> dict[str, Any]:
    """An input of required members."""
    inner = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": inner, "required": list(inner), "additionalProperties": False}


def giving(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


FIND = endpoint(
    "FIND",
    "/customers",
    "Looks a customer up by name.",
    never,
    taken=taking(name="string"),
    given=giving(customer_id="integer"),
)
RATE = endpoint("FETCH", "/rates", "Tells what a night costs.", never, given=giving(price="number"))
BOOK = endpoint(
    "BOOK",
    "/room",
    "Books a room for a guest.",
    never,
    impact="irreversible",
    timeout=5.0,
    taken=taking(customer_id="integer", price="number", nights="integer"),
    given=giving(booking_id="string"),
    required_scopes=("booking:room",),
)
MAIL = endpoint(
    "SEND",
    "/invoice",
    "Sends the invoice of a booking by mail.",
    never,
    impact="irreversible",
    taken=taking(booking_id="string"),
    timeout=2.0,
)
HOTEL = (FIND, RATE, BOOK, MAIL)


def steps(host: FloorHost, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host.result("PLAN", **options)["ordered_steps"]
    return found


def test_a_plan_is_ordered_and_chained() -> None:
    """Steps are calls; each comes after those whose output it takes (AGTP-206)."""
    CALLS.clear()
    plan = FloorHost(endpoints=HOTEL).result("PLAN", goal="Book a room and send the invoice", by=CALLER)
    names = [f"{step['method']} {step['path']}" for step in plan["ordered_steps"]]
    assert names == ["FIND /customers", "FETCH /rates", "BOOK /room", "SEND /invoice"]
    book, mail = plan["ordered_steps"][2:]
    assert book["parameters"] == {
        "customer_id": {"from_step": 1, "member": "customer_id"},
        "price": {"from_step": 2, "member": "price"},
    }
    assert (book["needs"], book["after"]) == (["nights"], [1, 2])
    assert mail["parameters"] == {"booking_id": {"from_step": 3, "member": "booking_id"}}
    assert book["required_scopes"] == ["booking:room"]
    assert set(plan) >= {"ordered_steps", "estimated_cost", "confidence", "assumptions"}
    assert plan["estimated_cost"]["calls"] == 4
    assert 0 < plan["confidence"] <= 1
    assert CALLS == []


def test_what_the_goal_says_is_not_looked_up() -> None:
    """Members of a structured goal become parameters, and spare the step that would find them."""
    goal = {"want": "book a room", "customer_id": 7, "price": 90, "nights": 2}
    (step,) = steps(FloorHost(endpoints=HOTEL), goal=goal)
    assert step["parameters"] == {"customer_id": 7, "price": 90, "nights": 2}
    assert step["needs"] == []


@each_row(
    "goal",
    [
        "Look a customer up with name welcome.txt",
        'Look a customer up, name "a txt by Ann"',
        "Look a customer up with name=welcome.txt",
        "Look customer 2 up",
        "Look ann@mail.example up, a customer",
    ],
)
def test_a_word_of_a_value_adds_no_step(goal: str) -> None:
    """What only the name of a file, a quotation, a number or an address has in common with a tool is no wish for it."""
    drop = endpoint("REMOVE", "/note", "Deletes the mail 2 notes/NAME.txt by Ann.", never, impact="irreversible")
    found = steps(FloorHost(endpoints=(FIND, drop)), goal=goal)
    assert [each["path"] for each in found] == ["/customers"]
    assert [each["path"] for each in steps(FloorHost(endpoints=(FIND, drop)), goal="x.txt")] == ["/note"]


FILE = taking(path="string")


FILES = {
    "read welcome.txt": ("/reading", "Books a room for reading a given book.", "/content", "Reads a file."),
    "open the report.pdf please": ("/door", "Opens the door.", "/store", "Opens a file of the store."),
    "print notes/list.md": ("/press", "Prints a poster of a file.", "/paper", "Prints a file."),
    "list plan.csv": ("/list", "Books a place on a list.", "/lines", "Lists what is at a path."),
}
"""Goals, with what has only a word of each and what takes the file."""


@each_row("goal", FILES)
def test_the_name_of_a_file_asks_for_what_takes_a_file(goal: str) -> None:
    """A verb and the name of a file: not what has only the verb's word, wherever it is listed."""
    wrong, says, right, does = FILES[goal]
    first = endpoint("BOOK", wrong, says, never, impact="irreversible", taken=taking(isbn="string"))
    second = endpoint("FETCH", right, does, never, taken=FILE)
    for offered in ((first, second), (second, first)):
        (step,) = steps(FloorHost(endpoints=offered), goal=goal)
        assert step["path"] == right and list(step["parameters"]) == ["path"], step


def test_values_that_a_goal_names_become_parameters() -> None:
    """AGIS-079: from hints and schema, marked as proposed; what a goal names is not looked up either."""
    found = steps(FloorHost(endpoints=HOTEL), goal="Book a room for customer_id 7 with price 90 and 2 nights")
    (step,) = [each for each in found if each["path"] == "/room"]
    assert step["parameters"] == {"customer_id": 7, "price": 90, "nights": 2}
    assert (step["needs"], step["after"]) == ([], [])
    assert sorted(step["proposed"]) == ["customer_id", "nights", "price"]
    known = {"want": "book a room", "customer_id": 7, "price": 9, "nights": 2}
    (plain,) = steps(FloorHost(endpoints=HOTEL), goal=known)
    assert plain["proposed"] == [], "members of a structured goal are said, and not proposed"


def test_types_must_fit() -> None:
    """An output of another type is no input."""
    odd = endpoint("FIND", "/codes", "Finds codes.", never, given=giving(customer_id="string"))
    (step,) = steps(FloorHost(endpoints=(odd, BOOK)), goal="book a room")
    assert "customer_id" in step["needs"]


def test_only_what_the_caller_may_call() -> None:
    """Without its scope, an endpoint is in no plan (design decision 14)."""
    host = FloorHost(endpoints=HOTEL)
    assert any(step["path"] == "/room" for step in steps(host, goal="book a room", by=CALLER))
    answer = host.ask("PLAN", goal="book a room", by=OTHER)
    assert b"/room" not in answer.body


@each_row(
    ("options", "methods"),
    [
        ({"available_methods": ["BOOK"]}, {"BOOK"}),
        ({"available_methods": "BOOK, FIND"}, {"BOOK", "FIND"}),
        ({"constraints": {"exclude_methods": ["FIND"]}}, {"FETCH", "BOOK"}),
        ({"constraints": {"methods": ["BOOK"]}}, {"BOOK"}),
        ({"constraints": {"max_steps": 1}}, {"BOOK"}),
    ],
)
def test_constraints_and_available_methods_hold(options: dict[str, Any], methods: set[str]) -> None:
    """A plan keeps to the methods and limits that it was given (AGTP-206)."""
    assert {step["method"] for step in steps(FloorHost(endpoints=HOTEL), goal="book a room", **options)} == methods


def test_constraints_on_impact_and_scopes_hold() -> None:
    """Nothing that does more, or needs more, than allowed is in the plan."""
    host = FloorHost(endpoints=HOTEL)
    found = steps(host, goal="book a room, tell what a night costs", constraints={"impact": "informational"})
    assert {step["impact"] for step in found} == {"informational"}
    found = steps(host, goal="book a room, send the invoice", constraints={"scopes": []})
    assert all(step["required_scopes"] == [] for step in found)


def test_what_cannot_be_checked_is_said() -> None:
    """Constraints in words, open inputs and unserved parts of the goal are among the assumptions (AGTP-206)."""
    plan = FloorHost(endpoints=HOTEL).result("PLAN", goal="book a room on saturn", constraints="before Friday")
    assert any("before Friday" in line for line in plan["assumptions"])
    assert any("saturn" in line for line in plan["assumptions"])
    assert any("nights" in line for line in plan["assumptions"])
    assert plan["confidence"] < 1


@pytest.mark.parametrize("goal", ["zzz qqq", "the of and"])
def test_an_unsatisfiable_goal_is_422(goal: str) -> None:
    """No plan is better than a made-up one (core v08 section 7.2.6)."""
    assert FloorHost(endpoints=HOTEL).refused("PLAN", goal=goal) == (422, "goal-unsatisfiable")


@each_row(
    ("name", "value"),
    [
        ("goal", ""),
        ("goal", []),
        ("available_methods", 3),
        ("available_methods", ["book"]),
        ("max_steps", 0),
        ("impact", "small"),
        ("methods", [1]),
    ],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each names its parameter (AGTP-206)."""
    inside = name in ("max_steps", "impact", "methods")
    given = {"constraints": {name: value}} if inside else {name: value}
    answer = FloorHost(endpoints=HOTEL).ask("PLAN", **{"goal": "book a room", **given})
    assert answer.status == 422
    assert body_of(answer)["parameter"].endswith(name)


def test_cycles_end() -> None:
    """Two endpoints that need each other's output are planned once each, or not at all."""
    one = endpoint("FIND", "/eggs", "Finds an egg.", never, taken=taking(hen="string"), given=giving(egg="string"))
    two = endpoint("FIND", "/hens", "Finds a hen.", never, taken=taking(egg="string"), given=giving(hen="string"))
    found = steps(FloorHost(endpoints=(one, two)), goal="find an egg and a hen")
    assert sorted(step["path"] for step in found) == ["/eggs", "/hens"]
    for step in found:
        assert all(before < step["step"] for before in step["after"])


def test_tools_are_steps_as_they_are_called() -> None:
    """A hosted tool is an EXECUTE with its action and payload."""
    tool = Binding(
        method="EXECUTE",
        path="/mcp/files",
        handler=FIND.handler,
        tier="B",
        name="files.word_count",
        description="Counts the words of a file.",
        min_assurance=Assurance.HEADER,
        input_schema=compile_schema(
            {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}, role="tool"
        ),
    )
    (step,) = steps(FloorHost(adapter=Toolbox(tool)), goal={"do": "count the words of a file", "path": "a.txt"})
    assert step["method"] == "EXECUTE"
    assert step["parameters"]["payload"] == {"tool": "files.word_count", "arguments": {"path": "a.txt"}}


@each_row(
    ("goal", "first"),
    [
        ('Call odd.my.tool with text "hello"', "odd.my.tool"),
        ('Call odd.fetch with text "hello"', "odd.fetch"),
        ("Do odd.a/b, please.", "odd.a/b"),
        ('Use "odd.my"', "odd.my"),
    ],
)
def test_a_tool_that_a_goal_names_is_a_step(goal: str, first: str) -> None:
    """Its whole name decides, whatever words of the goal the description of another tool has."""
    schema = compile_schema({"type": "object", "properties": {"text": {"type": "string"}}}, role="tool")
    named = {"odd.SAY": "Call odd text.", "odd.my": "my", "odd.my.tool": "tool", "odd.fetch": "fetch", "odd.a/b": ""}
    tools = [
        Binding(
            method="EXECUTE",
            path="/mcp/odd",
            handler=FIND.handler,
            tier="B",
            name=name,
            description=description,
            min_assurance=Assurance.HEADER,
            input_schema=schema,
        )
        for name, description in named.items()
    ]
    found = [step["parameters"]["payload"]["tool"] for step in steps(FloorHost(adapter=Toolbox(*tools)), goal=goal)]
    assert first in found
