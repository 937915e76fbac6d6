"""RUN, TRANSFER and AUTHORIZE endpoints: what their schemas must demand (AGTP-326, core v08 section 7.4)."""

from __future__ import annotations

import json
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import COMMON
from agtphost.contract.method_parameters import CARRIED, DEMANDED, parameter_faults
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.context import EndpointContext
from agtphost.identity.peer import Assurance
from agtphost.testing import MemoryHost
from tests.contract.declarations import SOUND, without_table
from tests.contract.test_endpoint_loading import read
from tests.identity.issued import agent, of_agent
from tests.memory import body_of
from tests.methods.hosts import DESK, MethodHost
from tests.rows import each_row

TEXT = '{ type = "string" }'
REGISTRY = '{ enum = ["nightly-backup", "reindex"] }'


def endpoint(method: str, *required: str, **properties: str) -> str:
    """The sound endpoint with another method and input."""
    text = without_table("input_schema").replace('method = "BOOK"', f'method = "{method}"')
    text = text.replace("/rooms/{room_id}", "/procedures")
    listed = "\n".join(f"{name} = {shape}" for name, shape in properties.items())
    return text + (
        f'\n[input_schema]\ntype = "object"\nadditionalProperties = false\nrequired = {json.dumps(list(required))}\n'
        f"\n[input_schema.properties]\n{listed}\n"
    )


@each_row(
    ("text", "said"),
    [
        (endpoint("RUN", "command", command=TEXT), "RUN needs the parameter procedure_id"),
        (endpoint("RUN", procedure_id=REGISTRY), "does not require it"),
        (endpoint("RUN", "procedure_id", procedure_id=TEXT), "not free-form strings"),
        (endpoint("RUN", "procedure_id", procedure_id='{ type = "string", pattern = "^[a-z]+$" }'), "not free-form"),
        (endpoint("RUN", "procedure_id", procedure_id="{ enum = [1, 2] }"), "not free-form strings"),
        (endpoint("RUN", "procedure_id", procedure_id=REGISTRY, command=TEXT), "command accepts any text"),
        (endpoint("RUN", "procedure_id", procedure_id=REGISTRY, script="{}"), "script accepts any text"),
        (
            endpoint(
                "RUN", "procedure_id", procedure_id=REGISTRY, words='{ type = "array", items = { type = "string" } }'
            ),
            "words",
        ),
        (endpoint("RUN", "procedure_id", procedure_id=REGISTRY, input=TEXT), "input must be an object"),
        (endpoint("TRANSFER", "resource_id", "to_principal", resource_id=TEXT, to_principal=TEXT), "from_principal"),
        (endpoint("TRANSFER", "from_principal", from_principal=TEXT), "resource_id"),
        (endpoint("AUTHORIZE", "subject", "resource", subject=TEXT, resource=TEXT), "scope"),
        (endpoint("AUTHORIZE", "resource", "scope", resource=TEXT, scope=TEXT), "subject"),
    ],
)
def test_what_is_missing_is_said_with_a_remedy(text: str, said: str) -> None:
    """AGTP-326: refused where it is read, which is at check and at start; the endpoint does not exist."""
    found, problems = read(text)
    assert found == []
    assert any(said in problem.message and problem.hint for problem in problems), problems


@each_row(
    "text",
    [
        endpoint("RUN", "procedure_id", procedure_id=REGISTRY, input='{ type = "object" }'),
        endpoint("RUN", "procedure_id", procedure_id='{ const = "reindex" }'),
        endpoint(
            "RUN",
            "procedure_id",
            procedure_id=REGISTRY,
            timeout='{ type = "number" }',
            day='{ type = "string", format = "date" }',
            stage='{ enum = ["test", "live"] }',
        ),
        endpoint("TRANSFER", *DEMANDED["TRANSFER"], **dict.fromkeys(DEMANDED["TRANSFER"], TEXT)),
        endpoint("AUTHORIZE", *DEMANDED["AUTHORIZE"], **dict.fromkeys(DEMANDED["AUTHORIZE"], TEXT)),
        SOUND,
    ],
)
def test_sound_endpoints_are_taken(text: str) -> None:
    """The control: the same files with what the drafts ask for."""
    found, problems = read(text)
    assert problems == [] and len(found) == 1


@each_row("schema", [None, [], "text", {"properties": []}, {"required": "procedure_id"}])
def test_no_schema_at_all_is_a_fault_and_no_crash(schema: Any) -> None:
    """Whatever stands there."""
    assert [name for name, _ in parameter_faults("RUN", schema)] == ["procedure_id"]


@each_row(
    ("shape", "bounded"),
    [
        ({"pattern": "^[a-z]+$"}, False),
        ({"type": "string", "pattern": ".*"}, False),
        ({"type": "string", "pattern": r"\S"}, False),
        ({"type": "string", "pattern": "^.{20,30}$"}, False),
        ({"type": "string", "pattern": "^(?s:.){900,}$"}, False),
        ({"type": "string", "pattern": "|".join(f"(?:[^a]{{{n}}})" for n in range(1, 60))}, False),
        ({"type": "string", "format": "json-pointer"}, False),
        ({"type": "array", "pattern": "^a$", "items": {"type": "string"}}, False),
        ({"type": ["string", "array"], "pattern": "^a$", "items": True}, False),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, False),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}, False),
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": {"type": "string"}}, False),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, False),
        ({"$ref": "#/$defs/text"}, False),
        ({"not": {"type": "number"}}, False),
        (True, False),
        ({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}, True),
        ({"type": ["string", "null"], "pattern": "^[0-9]{4}-W[0-9]{2}$"}, True),
        ({"type": "array", "items": {"type": "string", "format": "uuid"}}, True),
        ({"type": "object", "additionalProperties": False, "properties": {"n": {"type": "integer"}}}, True),
        ({"const": "live"}, True),
        (False, True),
    ],
)
def test_nothing_beside_the_input_takes_any_text(shape: Any, bounded: bool) -> None:
    """AGTP-326, METH-057: whatever the schema is written like, and wherever in it the text would be."""
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["procedure_id"],
        "properties": {"procedure_id": {"enum": ["reindex"]}},
        "$defs": {"text": {"type": "string"}},
    }
    assert not list(parameter_faults("RUN", schema))
    declared = {**schema, "properties": {**schema["properties"], "more": shape}}
    assert [name for name, _ in parameter_faults("RUN", declared)] == ([] if bounded else ["more"])
    by_pattern = {**schema, "patternProperties": {"^x-": shape}}
    assert [name for name, _ in parameter_faults("RUN", by_pattern)] == ([] if bounded else ["^x-"])


class Procedures:
    """Notes what was run."""

    kind = "registered_function"

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def handle(self, context: EndpointContext) -> Any:
        self.ran.append(context.input["procedure_id"])
        return {"done": True}


@each_row(
    ("shape", "given", "status", "ran"),
    [
        ({"enum": ["reindex"]}, "reindex", 200, ["reindex"]),
        ({"enum": ["reindex"]}, "rm -rf /", 422, []),
        ({"type": "string"}, "rm -rf /", 404, []),
        ({"type": "string"}, "reindex", 404, []),
    ],
)
def test_nothing_free_form_is_run_however_it_was_bound(
    shape: dict[str, Any], given: str, status: int, ran: list[str]
) -> None:
    """AGTP-326: the call is refused too, where a binding came past the check; sealed, with a remedy."""
    handler: Any = Procedures()
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["procedure_id"],
        "properties": {"procedure_id": shape},
    }
    bound = Binding(
        method="RUN",
        path="/procedures",
        handler=handler,
        tier="B",
        min_assurance=Assurance.HEADER,
        input_schema=compile_schema(schema, role="input"),
    )
    runner = agent("runner", hosted=False, scopes=("activation:run",))
    on = MethodHost(endpoints=[bound], agents=(DESK, runner))
    response = on.ask(
        "RUN",
        "/procedures",
        {"procedure_id": given},
        certificate=of_agent(runner.agent_id, commitment=("activation:run",)),
    )
    assert (response.status, handler.ran) == (status, ran), response.body
    if status == 404:
        assert body_of(response)["reason"] == "procedure-unregistered" and body_of(response)["remedy"]


@each_row(
    ("name", "free", "sound"),
    [
        ("context", "rm -rf /", {"reason": "weekly"}),
        ("session_id", "rm -rf /", "s-1"),
        ("task_id", {"a": 1}, "t-1"),
    ],
)
def test_what_every_method_takes_is_no_way_in(name: str, free: Any, sound: Any) -> None:
    """AGTP-326: an endpoint that declares it gets what it is by the draft, and no text of the caller's."""
    handler, host = Procedures(), MemoryHost()
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["procedure_id"],
        "properties": {"procedure_id": {"enum": ["reindex"]}, name: {}},
    }
    host.endpoint("RUN", "/procedures", handler.handle, input_schema=schema)
    runner = host.agent("runner", scopes=("activation:run",))
    for value, status in ((free, 422), (sound, 200)):
        answer = host.call("RUN", "/procedures", {"procedure_id": "reindex", name: value}, caller=runner)
        assert answer.status == status, answer.document
    assert handler.ran == ["reindex"]


def test_what_every_method_takes_is_what_every_built_in_takes() -> None:
    """Named twice, as what judges manifests has nothing of what makes them."""
    assert set(COMMON) == CARRIED
