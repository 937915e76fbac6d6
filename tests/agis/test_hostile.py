"""Texts of the greatest size that are made to take long: each is judged in seconds, and little is said of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from agtphost.agis.document_reader import MAX_OCTETS
from agtphost.agis.passes.subject import LONGEST
from agtphost.agis.validation import MOST, validate
from tests.agis.documents import DOCUMENT, ENDPOINT, changed
from tests.measuring import measured
from tests.programmes import length
from tests.rows import each_row

OCTETS = length(MAX_OCTETS // 64, MAX_OCTETS)
"""A text whose cost grows with the square of its length takes minutes at the one, and many seconds at the other."""

SECONDS = length(1.0, 10.0)
"""Of the processor, for one text, on a machine that is busy with others."""

SEMANTIC, INPUT = "endpoints.0.semantic", "endpoints.0.input"


MOST_OF_IT = OCTETS - 2_000
"""What one member may have of it."""


def _times(unit: str, of: int = OCTETS) -> str:
    """A text of so many octets, of nothing else."""
    return unit * (of // len(unit.encode()))


def _fields(**members: Any) -> bytes:
    return json.dumps({**DOCUMENT, **members}).encode()


def _place(place: str, value: Any) -> bytes:
    return json.dumps(changed((place, value))).encode()


def _endpoints(count: int, **members: Any) -> list[dict[str, Any]]:
    return [{**ENDPOINT, "path": f"/part-{number}", **members} for number in range(count)]


def _keyed(*lines: str) -> bytes:
    head = 'agis: "1.0"\nservice: a\nagtp: agtp://a.example\nvocabulary: {declared_verbs: [BOOK]}\nendpoints:\n'
    return (head + "".join(lines)).encode()


COUNT, CHAIN = length((300, 40), (5_000, 500))

TEXTS: dict[str, Callable[[], bytes]] = {
    "nothing but ends of lines": lambda: _times("\n").encode(),
    "nothing but comments": lambda: _times("#\n").encode(),
    "nothing but spaces": lambda: (_times(" ") + "[{").encode(),
    "aliases": lambda: f"a: &x [1]\nb: [{_times('*x,')}]".encode(),
    "deep": lambda: _times("[").encode(),
    "deep in YAML": lambda: _times("- ").encode(),
    "one number": lambda: f"agis: {_times('9')}".encode(),
    "one number in JSON": lambda: f'{{"agis": 1e{_times("9")}}}'.encode(),
    "many names": lambda: _fields(**{f"x{number}": 1 for number in range(OCTETS // 20)}),
    "many values": lambda: f"[{_times('1,')}1]".encode(),
    "one line": lambda: f"agis: {_times('x ')}".encode(),
    "lines that look like illustrations": lambda: f"a: [\n{_times('AAAA /x ')}\n{_times('AA /')}".encode(),
    "endpoints twice": lambda: _keyed(*(f"  BOOK /a-{each}: {{}}\n" for each in range(COUNT)), "  BOOK /a-0: {}\n"),
    "endpoints that are nothing": lambda: _keyed(*(f"  BOOK /a-{each}:\n" for each in range(COUNT))),
    "one path": lambda: _place("endpoints.0.path", f"/{_times('get-A/', MOST_OF_IT)}"),
    "one segment": lambda: _place("endpoints.0.path", f"/{_times('aB', MOST_OF_IT)}"),
    "one method": lambda: _place("endpoints.0.method", f"{_times('A', MOST_OF_IT)}ING"),
    "one method of many words": lambda: _place("endpoints.0.method", _times("A_", MOST_OF_IT)),
    "a long intent": lambda: _place(f"{SEMANTIC}.intent", _times("into the x ", MOST_OF_IT)),
    "500 characters of adverb": lambda: _fields(endpoints=_endpoints(COUNT // 2, semantic={"intent": "l" * 500})),
    "500 characters of table": lambda: _fields(
        endpoints=_endpoints(COUNT // 2, semantic={"intent": "record of " * 50, "outcome": "Dr. " * 120})
    ),
    "a transition of spaces": lambda: _place(f"{SEMANTIC}.state_transition", f"a: x{_times(' ', MOST_OF_IT)}"),
    "a transition of arrows": lambda: _place(f"{SEMANTIC}.state_transition", f"a: x{_times('->', MOST_OF_IT)}"),
    "a tool's name": lambda: _place(f"{SEMANTIC}.mcp_tool_name", _times("a_", MOST_OF_IT)),
    "hints": lambda: _place(f"{SEMANTIC}.parameter_hints", {f"a{each}": ["x"] for each in range(OCTETS // 20)}),
    "hints at many parameters": lambda: _fields(
        endpoints=[
            {
                **ENDPOINT,
                "semantic": {
                    **ENDPOINT["semantic"],
                    "parameter_hints": {f"partysize{n}": [] for n in range(OCTETS // 60)},
                },
                "input": {"type": "object", "properties": {f"party_size_{n}": {} for n in range(OCTETS // 60)}},
            }
        ]
    ),
    "hints of long names": lambda: _fields(
        endpoints=[
            {
                **ENDPOINT,
                "semantic": {**ENDPOINT["semantic"], "parameter_hints": {_times("ab", OCTETS // 3): []}},
                "input": {"type": "object", "properties": {_times("ba", OCTETS // 3): {}}},
            }
        ]
    ),
    "parameters of a shorthand": lambda: _place(INPUT, {"required": [f"aB{each} (x)" for each in range(OCTETS // 20)]}),
    "suppressions": lambda: _fields(
        suppressions=[{"rule": f"AGIS-P3-borderlin{each}", "reason": "x"} for each in range(OCTETS // 60)]
    ),
    "verbs": lambda: _place("vocabulary.declared_verbs", ["BOOK"] * (OCTETS // 10)),
    "errors": lambda: _place("endpoints.0.errors", ["error"] * (OCTETS // 12)),
    "one error": lambda: _place("endpoints.0.errors", [_times("aB", MOST_OF_IT)]),
    "choices of a shorthand": lambda: _place(INPUT, {"required": [f"a ({_times('enum: [', MOST_OF_IT)})"]}),
    "spaces of a shorthand": lambda: _place(INPUT, {"required": [f"a{_times(' ', MOST_OF_IT)}!"]}),
    "brackets of a shorthand": lambda: _place(INPUT, {"required": [_times("a (", MOST_OF_IT)]}),
    "an expression": lambda: _place(INPUT, {"properties": {"a": {"type": "string", "pattern": "(a+)+" * 8_000}}}),
    "an expression that repeats": lambda: _place(
        INPUT, {"properties": {f"a{each}": {"pattern": "((a{1,900}){1,900}){1,900}"} for each in range(50)}}
    ),
    "shared schemas in a row": lambda: _fields(
        schemas={**{f"s{each}": {"$ref": f"#/schemas/s{each + 1}"} for each in range(CHAIN)}, f"s{CHAIN}": {}},
        endpoints=_endpoints(COUNT, input={"$ref": "#/schemas/s0"}, output={"$ref": "#/schemas/s0"}),
    ),
    "data classes that are none": lambda: _fields(data_manifest={"available_data": [1] * (OCTETS // 4)}),
    "a member that is too long": lambda: _fields(service=_times("x", MOST_OF_IT)),
    "no UTF-8 at the end": lambda: _times("a: x\n").encode()[:-1] + b"\xff",
}


def judged(name: str) -> float:
    """Seconds of the processor that one text takes; what is said of it is little, and in short lines."""
    octets = TEXTS[name]()[:MAX_OCTETS]
    began = time.process_time()
    verdict = validate(octets)
    took = time.process_time() - began
    assert len(verdict.findings) <= MOST
    assert all(max(map(len, (each.place, each.message, each.fix))) <= LONGEST for each in verdict.findings)
    return took


@pytest.mark.programme
@each_row("name", TEXTS)
def test_no_text_takes_long(name: str) -> None:
    """Whatever it is made of: 64 KiB and 300 endpoints here, 4 MiB and 5,000 endpoints in the long run."""
    assert judged(name) < SECONDS


SPEEDS = ((20, 0.030), (1_000, 1.0))
"""Endpoints, and seconds of the processor: three times and more of what is needed on two busy cores."""


@measured
@each_row(("count", "seconds"), SPEEDS)
def test_large_documents(count: int, seconds: float) -> None:
    """Those that conform: one time of three, on a machine that is busy with others."""
    text = json.dumps({**DOCUMENT, "endpoints": _endpoints(count)}, indent=1).encode()

    def once() -> float:
        began = time.process_time()
        verdict = validate(text)
        took = time.process_time() - began
        assert verdict.conforms and not verdict.findings
        return took

    assert any(once() <= seconds for _ in range(3))
