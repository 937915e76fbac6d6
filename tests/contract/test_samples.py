"""The sample endpoints under etc/: they load, and their functions keep their own contracts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.contract.recipes.selection import read, settle
from agtphost.contract.reserved import RESERVED
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.function import resolve
from agtphost.identity.peer import Assurance
from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary.catalog import Catalog
from tests.rows import each_row

ETC = Path(__file__).resolve().parents[2] / "etc"


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, Endpoint]]:
    monkeypatch.syspath_prepend(str(ETC))
    endpoints, problems = load_endpoints(ETC / "endpoints", Rules(catalog=Catalog.load()))
    assert problems == []
    yield {endpoint.name: endpoint for endpoint in endpoints}
    for name in [name for name in list(sys.modules) if name.partition(".")[0] == "handlers"]:
        del sys.modules[name]


def call(endpoint: Endpoint, given: Mapping[str, Any], **members: Any) -> Any:
    """Call the endpoint's function; its input and its answer follow the endpoint's schemas."""
    assert endpoint.input_schema.faults(given) == []
    context = EndpointContext(input=given, method=endpoint.method, path=endpoint.path, **members)
    answer = resolve(endpoint.handler.function)(context)
    if asyncio.iscoroutine(answer):
        answer = asyncio.run(answer)
    assert endpoint.output_schema.faults(answer) == []
    return answer


def test_the_samples_show_what_there_is(samples: Mapping[str, Endpoint]) -> None:
    """A template, an irreversible action with a scope, an informational one."""
    assert set(samples) == {"QUERY /library/{isbn}", "BOOK /room", "BOOK /reading", "ECHO /text"}
    room = samples["BOOK /room"]
    assert (room.required_scopes, room.min_assurance) == (("booking:room",), Assurance.CERTIFICATE)
    assert samples["ECHO /text"].min_assurance is Assurance.GATEWAY


def test_providers_of_the_samples_are_there_with_their_methods(samples: Mapping[str, Endpoint]) -> None:
    """A host that turns a standard method on has the sample's provider of it, and no other host lists one."""

    def more(*standard: str) -> set[str]:
        rules = Rules(catalog=Catalog.load(), standard=standard)
        endpoints, problems = load_endpoints(ETC / "endpoints", rules)
        assert problems == []
        return {endpoint.name for endpoint in endpoints} - samples.keys()

    assert more("FETCH") == set()
    assert more("CLASSIFY", "MAP") == {"CLASSIFY /", "MAP /semantic"}
    assert more(*STANDARD) == {"EXTRACT /", "CLASSIFY /", "MAP /semantic", "EVALUATE /keywords"}


FIELDS = [{"field": "cust_no", "type": "", "description": ""}]
WEATHER = {"schema": {"type": "object", "properties": {"city": {"type": "string"}}}, "source": "city: Graz"}
CRITERION = {"name": "text", "member": "text", "keywords": ["on"]}


@each_row(
    "name, sound, wrong",
    [
        ("EXTRACT /", WEATHER, [{}, {"source": "x"}, {**WEATHER, "schema": 1}]),
        ("CLASSIFY /", {"items": ["a"], "taxonomy": ["a"]}, [{}, {"items": ["a"]}, {"items": ["a"], "taxonomy": 1}]),
        (
            "MAP /semantic",
            {"source": FIELDS, "target": FIELDS},
            [{}, {"source": FIELDS}, {"source": FIELDS, "target": "x"}, {"source": FIELDS, "target": [{}]}],
        ),
        (
            "EVALUATE /keywords",
            {"target": {"text": "on time"}, "criteria": [CRITERION]},
            [{}, {"target": "x", "criteria": []}, {"target": {}, "criteria": [{**CRITERION, "keywords": []}]}],
        ),
    ],
)
def test_providers_say_in_their_schemas_what_they_read(
    samples: Mapping[str, Endpoint], name: str, sound: dict[str, Any], wrong: list[dict[str, Any]]
) -> None:
    """Callers reach ``MAP /semantic`` and ``EVALUATE /keywords`` directly: an input without members was a 500."""
    endpoints, _ = load_endpoints(ETC / "endpoints", Rules(catalog=Catalog.load(), standard=tuple(STANDARD)))
    endpoint = next(each for each in endpoints if each.name == name)
    assert call(endpoint, sound)
    assert [given for given in wrong if endpoint.input_schema.is_valid(given)] == []


def test_the_library(samples: Mapping[str, Endpoint]) -> None:
    """A book that is there, and a declared error for one that is not."""
    library = samples["QUERY /library/{isbn}"]
    assert call(library, {"isbn": "978-0-14-143951-8"})["author"] == "Jane Austen"
    with pytest.raises(EndpointError) as caught:
        call(library, {"isbn": "9999999999999"})
    assert caught.value.name in library.errors
    assert not library.input_schema.is_valid({"isbn": "../../etc/passwd"})


def test_the_rooms(samples: Mapping[str, Endpoint]) -> None:
    """A room is taken once for a night; errors are the declared ones."""
    room = samples["BOOK /room"]
    stay = {"room": "attic", "arrival": "2026-12-01", "departure": "2026-12-03"}
    assert call(room, stay)["nights"] == 2
    assert call(room, {**stay, "arrival": "2026-12-03", "departure": "2026-12-04"})["nights"] == 1
    wrong = {
        "room_unavailable": {**stay, "arrival": "2026-12-02"},
        "invalid_dates": {**stay, "departure": "2026-11-01"},
    }
    for name, given in wrong.items():
        with pytest.raises(EndpointError, match=name):
            call(room, given)
        assert name in room.errors
    assert not room.input_schema.is_valid({**stay, "arrival": "tomorrow"})


def test_the_reading_stay(samples: Mapping[str, Endpoint]) -> None:
    """The sample recipe is sound, and what its endpoint says of itself is true of its steps."""
    rules, problems = Rules(catalog=Catalog.load(), reserved=RESERVED), []  # type: ignore[var-annotated]
    book, settled = settle(read(ETC / "recipes.toml", rules, problems), list(samples.values()), RESERVED, problems)
    assert problems == []
    (recipe,) = book.all()
    reading = next(endpoint for endpoint in settled if endpoint.path == "/reading")
    assert book.find(reading.handler.recipe) is recipe
    assert set(recipe.required_scopes) == {"documents:query", "booking:room"} == set(reading.required_scopes)
    assert reading.min_assurance is Assurance.CERTIFICATE


def test_the_text(samples: Mapping[str, Endpoint]) -> None:
    """Word by word, then the whole."""
    heard: list[Mapping[str, Any]] = []

    async def emit(event: Mapping[str, Any]) -> None:
        heard.append(event)

    assert call(samples["ECHO /text"], {"text": "two words"}, emit=emit) == {"text": "two words", "words": 2}
    assert [event["word"] for event in heard] == ["two", "words"]
