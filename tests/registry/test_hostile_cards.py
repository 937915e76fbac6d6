"""Hostile cards: each is refused by the member that is wrong, and the host goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agtphost.registry.card_reader import CardFaults, read
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.shorthand import schema_of
from agtphost.vocabulary import jsontext
from tests.measuring import measured
from tests.registry.hosts import RegistryHost, card, text_of
from tests.rows import each_row

BOMB: dict[str, Any] = {
    "type": "object",
    "$defs": {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]} for at in range(30)}
    | {"d30": {"type": "string"}},
    "properties": {"a": {"$ref": "#/$defs/d0"}},
}
SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a{1,900}){1,900}"}}}
WIDE = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(1_200)}}

HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("id", {"id": None}),
    ("id", {"id": 7}),
    ("id", {"id": ""}),
    ("id", {"id": "x" * 257}),
    ("id", {"id": "a b"}),
    ("id", {"id": "tränslator"}),
    ("id", {"id": "transl\u0430tor"}),
    ("id", {"id": ".."}),
    ("id", {"id": "<script>"}),
    ("id", {"id": "a\nb"}),
    ("name", {"name": None}),
    ("name", {"name": "   "}),
    ("name", {"name": ["x"]}),
    ("name", {"name": "x" * (1 << 20)}),
    ("name", {"name": "safe\u202egnp.exe"}),
    ("name", {"name": "safe\u2066gnp"}),
    ("name", {"name": "in\u200bvisible"}),
    ("name", {"name": "red\x1b[31m"}),
    ("name", {"name": "two\nlines"}),
    ("name", {"name": "Z" + "\u0300" * 40}),
    *(("name", {"name": f"in{blank}visible"}) for blank in "\u034f\u115f\u1160\u17b4\u2800\u3164\uffa0"),
    ("description", {"description": None}),
    ("description", {"description": "x" * 4_001}),
    ("description", {"description": "a\u202eb"}),
    ("description", {"description": {"en": "x"}}),
    ("capabilities", {"capabilities": None}),
    ("capabilities", {"capabilities": "translation"}),
    ("capabilities", {"capabilities": {"streaming": True}}),
    ("capabilities", {"capabilities": ["x"] * 101}),
    ("capabilities[1]", {"capabilities": ["x", 7]}),
    ("capabilities[0]", {"capabilities": ["x" * 101]}),
    ("tags[0]", {"tags": ["a\u202eb"]}),
    ("supported_languages[0]", {"supported_languages": ["../../etc"]}),
    ("endpoint", {"endpoint": None}),
    *(
        ("endpoint", {"endpoint": url})
        for url in (
            "file:///etc/passwd",
            "http://api.example.com/",
            "https://169.254.169.254/latest/meta-data/",
            "https://[::ffff:169.254.169.254]/",
            "https://[fd00:ec2::254]/",
            "https://127.0.0.1:8443/",
            "https://localhost/",
            "https://x.localhost./",
            "https://10.0.0.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://017700000001/",
            "https://127.0x0.0.1/",
            "https://169.0xfe.0xa9fe/",
            "https://169.254.43518./",
            "https://[::ffff:0:a9fe:a9fe]/",
            "https://169%2e254.169.254/",
            "https://*.example.com/",
            "https://api..example.com/",
            "https://-api.example.com/",
            f"https://{'x' * 64}.example.com/",
            f"https://{'x.' * 127}com/",
            "https://user:pass@api.example.com/",
            "https:///nowhere",
            "https://api.example.com:99999/",
            "javascript:alert(1)",
            "//api.example.com/",
            "/agents/x",
            "https://api.example.com/ x",
            "https://api.example.com/#fragment",
            "https://\u0430pi.example.com/",
            "https://api.example.com/" + "x" * 2_048,
        )
    ),
    ("authentication", {"authentication": None}),
    ("authentication", {"authentication": "magic"}),
    ("authentication", {"authentication": ["none"]}),
    ("inputs.text", {"inputs": {"text": "strnig"}}),
    ("inputs.text", {"inputs": {"text": 7}}),
    ("inputs", {"inputs": "string"}),
    ("outputs", {"outputs": ["string"]}),
    ("inputs", {"inputs": {"$ref": "#"}}),
    ("inputs", {"inputs": BOMB}),
    ("inputs", {"inputs": SLOW}),
    ("inputs", {"inputs": WIDE}),
    ("inputs", {"inputs": {"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema"}}}}),
    ("operations", {"operations": {"name": "x"}}),
    ("operations", {"operations": [{"name": f"o{at}"} for at in range(201)]}),
    ("operations[0]", {"operations": ["x"]}),
    ("operations[0].name", {"operations": [{}]}),
    ("operations[0].name", {"operations": [{"name": "a/b"}]}),
    ("operations[1].name", {"operations": [{"name": "a"}, {"name": "a"}]}),
    ("operations[0].endpoint", {"operations": [{"name": "a", "endpoint": "https://169.254.169.254/"}]}),
    ("operations[1].input_schema", {"operations": [{"name": "a"}, {"name": "b", "input_schema": BOMB}]}),
    ("operations[0].description", {"operations": [{"name": "a", "description": "x\u202e"}]}),
    ("provider", {"provider": 7}),
    ("version", {"version": "x" * 101}),
    ("", {"x": "y" * (257 << 10)}),
]


@each_row(("member", "members"), HOSTILE)
def test_a_hostile_card_is_refused_by_its_member(member: str, members: dict[str, Any]) -> None:
    """The first fault names it, exactly or with the place inside a schema."""
    with pytest.raises(CardFaults) as refused:
        read(jsontext.encode(card(**members)), EndpointChecker())
    found = refused.value.faults[0].member
    assert found == member or (member and found.startswith((f"{member}/", f"{member}."))), found


def test_the_cards_around_the_hostile_ones_are_read() -> None:
    """The control: what is at each limit passes, so that none of the above is refused for something else."""
    sound: list[dict[str, Any]] = [
        {},
        {"id": "x" * 256},
        {"id": "urn:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427"},
        {"id": "https://agents.example.com/translator?v=1"},
        {"name": "x" * 200},
        {"name": "Übersetzer 翻訳 🌍"},
        {"description": "x" * 4_000},
        {"description": "Two\nlines,\tand a tab."},
        {"capabilities": ["x" * 100] * 100},
        {"endpoint": "agtp://agents.example.com/translator"},
        {"endpoint": "https://_a-1.0x7f.xn--p1ai./"},
        {"endpoint": f"https://{'x' * 63}.1e100.example/"},
        {"authentication": "  oAuth 2.0"[2:-2]},
        {"authentication": "m-TLS"},
        {"operations": [{"name": f"o{at}", "inputs": {"a": "string[]", "b": "integer?"}} for at in range(200)]},
        {"inputs": {"type": "object", "properties": {"text": {"type": "string"}}}},
        {"inputs": {"type": "string", "properties": "object"}},
        {"inputs": None, "outputs": None},
        {"provider": {"organization": "ExampleAI", "url": "https://example.com"}},
        {"x": "y" * (200 << 10)},
    ]
    for members in sound:
        read(text_of(card(**members)).encode(), EndpointChecker())
    read(jsontext.encode(card(endpoint="http://127.0.0.1:8080/")), EndpointChecker(development=True))


def test_the_shorthand_is_a_schema() -> None:
    """As the draft writes it, with what it leaves to be meant."""
    assert schema_of({"text": "string", "n": "Integer?", "many": "string[]", "deep": {"a": "bool"}}) == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "n": {"type": "integer"},
            "many": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        },
        "required": ["text", "many", "deep"],
    }
    given = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert schema_of(given) is given


@measured
def test_a_refused_card_says_what_is_wrong_and_leaves_nothing() -> None:
    """Over AGTP: 422 with every fault, octets that are no JSON too; the registry is as it was, and answers on."""
    host = RegistryHost()
    began = time.process_time()
    answer = host.register(given=card(name=None, capabilities="x", endpoint="file:///etc/passwd", inputs=BOMB))
    assert (answer.status, answer.reason) == (422, "card-invalid")
    assert [fault["path"] for fault in answer.document["faults"]][:3] == ["name", "capabilities", "endpoint"]
    assert answer.document["parameter"] == answer.document["field"] == "name"
    for text in ("", "{", "[]", '{"id": "a", "id": "b"}', '{"id": NaN}', "[" * 100, "\ufeff{}", '{"n": 1e400}'):
        refused = host.register(given=text)
        assert (refused.status, refused.reason) == (422, "card-invalid"), text
    for wrong in (None, 7, [card()]):
        refused = host.call("REGISTER", "/cards", {"card": wrong}, caller=host.translator)
        assert (refused.status, refused.document["parameter"]) == (422, "card"), wrong
    assert host.registered(host.operator) == []
    assert time.process_time() - began < 2.0
    assert host.register().status == 200
