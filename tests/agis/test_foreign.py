"""What others wrote, damaged: a conversion says what is wrong, or makes a document, and nothing else happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from agtphost.agis.document_reader import Unreadable
from agtphost.agis.endpoint_matching import ServiceMap
from agtphost.agis.from_mcp import ToolsError, from_mcp, tools_of
from agtphost.agis.from_openapi import from_openapi, read_openapi
from agtphost.agis.illustrative import from_illustrative
from agtphost.agis.to_mcp import may_be_tools, to_mcp
from agtphost.agis.to_openapi import to_openapi
from agtphost.agis.validation import validate_value
from agtphost.contract.openapi.importer import OpenAPIError
from tests.agis.test_mcp import RECORDED
from tests.agis.test_openapi import PETS
from tests.programmes import length

SEED = 20_261_122

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, "", " ", "\x00", "get", "GET", "/", "//", "/{}", "{x", "é" * 300, "you are"),
    *("#/x", "#/components/schemas/Pet", "https://example.com/x", [], {}, [[]], [None], {"": {}}, {"$ref": "#"}),
    *({"$ref": "#/components/schemas/Pet"}, {"type": ["string", 7]}, {"type": "object", "properties": 7}, "x" * 3_000),
)
"""Values that nobody expects."""

DRAFTS = [file.read_text() for file in sorted((Path(__file__).parent / "drafts").glob("*.txt"))]
PIECES = (
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "->",
    "...",
    "-",
    "(",
    ")",
    "\n",
    " ",
    "#",
    "BOOK /x {",
    "errors {",
    "a: b",
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a tree, with each of its names or indexes."""
    for name in [*value] if isinstance(value, dict) else range(len(value)):
        yield value, name
        if isinstance(value[name], (dict, list)):
            yield from places(value[name])


def damaged(value: Any, random: Random) -> Any:
    """A copy with one to three values that are others, are gone, or have other names."""
    found = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        within, name = random.choice([*places(found)])
        kind = random.random()
        if kind < 0.2:
            del within[name]
        elif kind < 0.3 and isinstance(within, dict):
            within[random.choice(["", "x" * 300, "{", "200", "$ref", "get"])] = within.pop(name)
        else:
            within[name] = copy.deepcopy(random.choice(ODD))
        if not found:
            break
    return found


def use(document: Any) -> None:
    """All that can be done with a document, if it conforms or if tools can be made of it."""
    verdict = validate_value(document)
    if verdict.document is not None and may_be_tools(verdict):
        json.dumps(to_mcp(verdict.document))
    if verdict.document is not None and verdict.conforms:
        json.dumps(to_openapi(verdict.document)[0])
        ServiceMap(document=verdict.document).match("find the thing")


def tried(times: int, made: Callable[[Random], Any]) -> int:
    """How often a document came of it; the seed of a failure is in its message."""
    done = 0
    for number in range(times):
        random = Random(SEED + number)
        try:
            use(made(random))
        except (ToolsError, OpenAPIError, Unreadable):
            continue
        except Exception as error:
            raise AssertionError(f"Random({SEED + number})") from error
        done += 1
    return done


def test_lists_of_tools() -> None:
    """Of real servers, damaged."""
    lists = [json.loads(file.read_text()) for file in RECORDED]
    lists = [{"tools": each["tools"][:3]} for each in lists]

    def made(random: Random) -> Any:
        drafted = from_mcp(tools_of(damaged(random.choice(lists), random)), service="x")
        assert drafted.text("x")
        return drafted.document

    assert tried(length(60, 20_000), made) > 20


def test_documents_of_openapi() -> None:
    """Damaged in their values, and as text."""
    whole = yaml.safe_load(PETS)

    def made(random: Random) -> Any:
        return from_openapi(read_openapi(json.dumps(damaged(whole, random)).encode())).document

    assert tried(length(60, 10_000), made) > 20


def test_texts_with_braces() -> None:
    """The draft's documents, with pieces put in and taken out."""

    def made(random: Random) -> Any:
        text = random.choice(DRAFTS)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(text))
            text = text[:at] + random.choice(["", *PIECES]) + text[at + random.choice([0, 0, 1, 5, 50]) :]
        return from_illustrative(text.encode()).root

    assert tried(length(150, 20_000), made) > 20
