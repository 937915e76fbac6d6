"""
Documents that a grammar makes, and that are then spoiled: the validator finds things in them, and never raises.

``python -m pytest --programmes tests/agis/test_fuzz.py`` makes 200,000 of them, from a seed that is printed;
``AGIS_SEED`` chooses another.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from agtphost.agis.autofix import apply_fixes
from agtphost.agis.normal import as_json, as_yaml, to_canonical
from agtphost.agis.rules import RULES
from agtphost.agis.to_openapi import to_openapi
from agtphost.agis.validation import Verdict, validate
from agtphost.agis.words import words
from tests.programmes import length

SEED = int(os.environ.get("AGIS_SEED", "20261122"))
COUNT = length(300, 200_000)
VERBS = sorted(words().verbs)
ODD_METHODS = (
    "GET",
    "BOOKING",
    "book",
    "BOOK_TABLE",
    "FindRoom",
    "SEARCH2",
    "OPEN",
    "DATA",
    "YOYAKU",
    "BÜCHE",
    "",
    " ",
)
NOUNS = ("room", "patient-record", "order", "calendar", "meter", "{id}", "{orderId}")
ODD_SEGMENTS = ("getRoom", "Room", "room_no", ":id", "<id>", "*", "", "a?b=c", "find", "café", "..", "{", "}{")
WORDS = ("the", "room", "of", "a", "patient", "is", "returned", "record", "into", "table", "Dr.", "system:", "you are")
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e300,
        "",
        " ",
        "x",
        "yes",
        "null",
        "a\nb",
        "\x85",
        "\u2028",
        "é",
        "😀",
        "->",
        ": ->",
    ),
    *(
        [],
        ["x"],
        [[]],
        [None],
        {},
        {"": 1},
        {"a": {}},
        {"$ref": "#/schemas/x"},
        {"$ref": "#"},
        {"$ref": 1},
        {"type": 7},
    ),
    *(
        {"type": 7},
        {"required": "a"},
        {"required": [1]},
        {"properties": []},
        {"rule": "AGIS-P7-domain"},
        "x" * 600,
        ["x"] * 50,
    ),
)
"""What may stand in any place."""

TIERS = ("low", "high")
ENDINGS = ("", " ", "X", "_b", "\n")

Chance = random.Random


def sentence(chance: Chance) -> str:
    """An intent, or what somebody takes for one."""
    verb = chance.choice(VERBS).title()
    return " ".join((f"{verb}{chance.choice(('', 's'))}", *chance.choices(WORDS, k=chance.randint(0, 12))))


def path(chance: Chance) -> str:
    """A path of nouns, and now and then of something else."""
    pool = NOUNS if chance.random() < 0.7 else (*NOUNS, *ODD_SEGMENTS)
    return "/".join(("", *chance.choices(pool, k=chance.randint(1, 4))))


def schema(chance: Chance, depth: int = 0) -> Any:
    """A JSON Schema, the draft's shorthand, or a reference."""
    kind = chance.random()
    if kind < 0.2 and depth < 3:
        named = {chance.choice(("a", "party_size", "orderId", "id")): schema(chance, depth + 1) for _ in range(2)}
        return {"type": "object", "properties": named, "required": chance.sample([*named], chance.randint(0, 1))}
    if kind < 0.3:
        return {
            "required": [chance.choice(("a (int)", "b", "c (enum: [A, B])", "d (", "(e)"))],
            "optional": ["f"],
        }
    if kind < 0.4:
        return {"$ref": f"#/schemas/{chance.choice('xyz')}"}
    keyword = chance.choice(("type", "minimum", "pattern", "enum", "items", "format", "allOf", "const", "x-note"))
    return {keyword: chance.choice(("string", "integer", 1, "(", ["a"], [{}], {}, "date"))}


def endpoint(chance: Chance) -> dict[str, Any]:
    """One endpoint; most have everything."""
    semantic: dict[str, Any] = {"intent": sentence(chance), "actor": "agent", "outcome": sentence(chance)}
    for name, values in (
        ("capability", ("discovery", "analysis", "creation")),
        ("confidence_guidance", (0.5, 0.9, 2)),
        ("impact_tier", ("informational", "irreversible", "grave")),
        ("is_idempotent", (True, "no")),
        ("state_transition", ("a: X -> Y", "X", {"a.b": "X -> Y"}, ["a: X -> Y", 7])),
        ("parameter_hints", ({"a": ["b"]}, {"orderId": ["c"]}, ["a"])),
        ("mcp_tool_name", ("book_room", "bookRoom", 7)),
    ):
        if chance.random() < 0.3:
            semantic[name] = chance.choice(values)
    errors = chance.choice((["no_room"], [], ["noRoom", "error"], [{"name": "no_room"}], {"no_room": "none"}, "none"))
    return {"semantic": semantic, "input": schema(chance), "output": schema(chance), "errors": errors}


def document(chance: Chance) -> dict[str, Any]:
    """A document of either shape."""
    methods = [
        chance.choice(VERBS) if chance.random() < 0.8 else chance.choice(ODD_METHODS)
        for _ in range(chance.randint(1, 3))
    ]
    listed = [{"method": method, "path": path(chance), **endpoint(chance)} for method in methods]
    keyed = {f"{each.pop('method')} {each.pop('path')}": each for each in map(dict, listed)}
    found: dict[str, Any] = {
        "agis": "1.0",
        "service": "Made up",
        "agtp": "agtp://made-up.example",
        "endpoints": listed if chance.random() < 0.5 else keyed,
        "vocabulary": {"declared_verbs": methods, "domain": "fiction", "negotiable": chance.random() < 0.2},
    }
    for name, make in MEMBERS.items():
        if chance.random() < 0.2:
            found[name] = make(chance)
    return found


MEMBERS: dict[str, Callable[[Chance], Any]] = {
    "description": sentence,
    "version": lambda chance: chance.choice(("1.0.0", "1")),
    "schemas": lambda chance: {name: schema(chance) for name in "xy"},
    "suppressions": lambda chance: [
        {"rule": chance.choice([*RULES]), "reason": chance.choice(("", "ours")), "endpoint": f"BOOK {path(chance)}"}
    ],
    "data_manifest": lambda chance: {
        "pre_auth_discovery": True,
        "available_data": [
            {
                "class": "a",
                "description": "1,204 records",
                "formats": ["json"],
                "sensitivity": chance.choice(("low", "high")),
            }
        ],
    },
}


def spoiled(value: Any, chance: Chance) -> Any:
    """With something else in one place, and what was there in it now and then."""
    within, outer, at = value, None, None
    while isinstance(within, (dict, list)) and within and (outer is None or chance.random() < 0.8):
        outer, at = within, chance.choice([*within] if isinstance(within, dict) else range(len(within)))
        within = outer[at]
    if outer is None:
        return value
    if isinstance(outer, dict) and chance.random() < 0.2:
        outer[f"{at}{chance.choice(ENDINGS)}"] = outer.pop(at)
    elif chance.random() < 0.1:
        del outer[at]
    else:
        outer[at] = json.loads(json.dumps(chance.choice(ODD)))
    return value


def text(value: Any, chance: Chance) -> bytes:
    """Of it, in either notation; now and then with an octet that is another."""
    written = json.dumps(value) if chance.random() < 0.7 else yaml.dump(value, Dumper=yaml.CSafeDumper)
    octets = bytearray(written.encode("utf-8", "surrogatepass"))
    if chance.random() < 0.1:
        octets[chance.randrange(len(octets))] = chance.randrange(256)
    if chance.random() < 0.02:
        del octets[chance.randrange(len(octets)) :]
    return bytes(octets)


def told(verdict: Verdict) -> Counter[str]:
    """The rules of its findings; each finding says where it is and what is wrong."""
    for each in verdict.findings:
        assert each.message and each.place and each.line > 0 and each.column > 0, each
    assert verdict.conforms is (
        verdict.document is not None and all(each.severity.value != "error" for each in verdict.findings)
    )
    return Counter(each.rule.name for each in verdict.findings)


def judge(octets: bytes, level: int) -> Counter[str]:
    """
    Whatever a text is, it is judged; one that can be read is mended and written anew.

    What its canonical form is judged as is what it was itself.
    """
    verdict = validate(octets, level=level)
    found = told(verdict)
    if verdict.document is None:
        return found
    better, changes = apply_fixes(verdict.document)
    value = to_canonical(better)
    written = (as_json if level == 1 else as_yaml)(value)
    again = validate(written.encode("utf-8", "surrogatepass"), level=level)
    after = told(again)
    if verdict.conforms:
        assert again.conforms, (octets, again.findings)
        assert json.dumps(to_openapi(verdict.document)[0]), octets
    if again.document is not None:
        errors = {name for name in {*found, *after} if RULES[name].severity.value == "error"}
        # What is mended takes errors away, and brings none.
        assert {*after} & errors <= {*found} & errors, (octets, found, after)
        assert changes or {*found} & errors == {*after} & errors, (octets, found, after)
    return found


@pytest.mark.programme
def test_generated_documents_raise_nothing_but_findings() -> None:
    """Of every pass something is found, and some documents conform: the grammar reaches all of them."""
    print(f"seed {SEED}, {COUNT} documents")
    chance = random.Random(SEED)
    found: Counter[str] = Counter()
    for number in range(COUNT):
        value = document(chance)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 4))):
            value = spoiled(value, chance)
        octets = text(value, chance)
        try:
            found.update(judge(octets, 1 + number % 2) or ["nothing"])
        except Exception as error:
            raise AssertionError(f"seed {SEED}, document {number}: {octets!r}") from error
    assert {RULES[name].number for name in found if name != "nothing"} == {*range(1, 9)}
    assert found["nothing"] or found["AGIS-P1-recommended"], found
