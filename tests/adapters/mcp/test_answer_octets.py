"""What a server writes as its result is sent to the caller as it stands, where its place in the text is certain."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer, find_result
from agtphost.testing.loaded_parts import SERVER_ID
from agtphost.vocabulary import jsontext
from tests.adapters.mcp.test_jsonrpc import RecordingLink
from tests.bench.tool_path import PlayedChild, ToolPath
from tests.programmes import seed_of_chance

HOSTILE = (
    "}",
    "{",
    '"',
    "\\",
    ',"jsonrpc":"2.0","id":7}',
    '{"jsonrpc":"2.0","id":7,"result":',
    "\u00e9",
    "\u2028",
    "\x00",
)
"""Texts and names that look like the end or the beginning of an answer."""


def generated(chance: random.Random, depth: int = 3) -> Any:
    """Return a JSON value whose texts are hostile."""
    kind = chance.randrange(6 if depth else 4)
    if kind == 4:
        return [generated(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 5:
        return {chance.choice(HOSTILE) + str(n): generated(chance, depth - 1) for n in range(chance.randrange(4))}
    return (None, chance.randrange(-9, 9), chance.choice(HOSTILE), "".join(chance.choices(HOSTILE, k=3)))[kind]


def test_a_result_is_found_in_every_order_of_members() -> None:
    """What is found means what the strict decoder read; in the two usual forms something is found."""
    seed = seed_of_chance()
    chance = random.Random(seed)
    found = 0
    for _ in range(600):
        result = generated(chance)
        members = [("jsonrpc", "2.0"), ("id", 7), ("result", result)]
        chance.shuffle(members)
        if chance.random() < 0.2:
            members.append(("extra", generated(chance)))
        spaced = chance.random() < 0.3
        separators = (", ", ": ") if spaced else (",", ":")
        text = json.dumps(dict(members), ensure_ascii=chance.random() < 0.5, separators=separators).encode()
        octets = find_result(text, jsontext.decode(text))
        if octets:
            found += 1
            assert jsontext.decode(octets) == result, f"seed {seed}: {text!r}"
        order = [name for name, _ in members]
        usual = order in (["jsonrpc", "id", "result"], ["result", "jsonrpc", "id"])
        assert bool(octets) is (usual and not spaced), f"seed {seed}: {text!r}"
    assert found > 50, f"seed {seed}"


def test_other_forms_are_not_cut() -> None:
    """A text of another form is left to the encoder: a result is never guessed."""
    rows = (
        b'{"jsonrpc":"2.0","id":7,"result":{}}\r',
        b'{"jsonrpc":"2.0","id":7,"result":{},"extra":1}',
        b'{"result":{},"extra":1,"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":7.0,"result":{}}',
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b' {"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0", "id":7,"result":{}}',
    )
    for row in rows:
        assert find_result(row, jsontext.decode(row.strip())) == b"", row


def test_octets_belong_to_the_one_result_that_is_being_delivered() -> None:
    """Neither an equal result of another call nor a result that was delivered before has them."""
    peer = JsonRpcPeer(Clock(), RecordingLink, lambda *_: None, lambda _: None)
    told: list[tuple[bytes, bytes]] = []
    earlier: list[dict[str, Any]] = []

    def note(result: dict[str, Any]) -> None:
        told.append((peer.octets_of(result), peer.octets_of({"n": 1})))
        earlier.append(result)

    for number in (1, 2):
        peer.request("tools/call", {}, 5.0).addCallback(note)
        line = b'{"jsonrpc":"2.0","id":%d,"result":{"n":1}}' % number
        assert peer.take_message(jsontext.decode(line), None, line)
        assert peer.octets_of(earlier[-1]) == b""
    assert told == [(b'{"n":1}', b"")] * 2
    peer.request("tools/call", {}, 5.0).addCallback(lambda _: told.append((peer.octets_of(earlier[0]), b"")))
    line = b'{"jsonrpc":"2.0","id":3,"result":{"n":1}}'
    peer.take_message(jsontext.decode(line), None, line)
    assert told[-1] == (b"", b"")


WRITTEN = '{"content":[{"type":"text","text":"caf\\u00e9 \\/ 1.50"}],"structuredContent":{"result":[]},"isError":false}'


@pytest.mark.parametrize(
    "form", ['{"jsonrpc":"2.0","id":%d,"result":%s}', '{"id": %d, "jsonrpc": "2.0", "result": %s}']
)
def test_the_callers_body_says_what_the_server_wrote(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was written where its place is known, and otherwise encoded anew; the value is the same."""
    answer = PlayedChild.answer

    def written(child: PlayedChild, asked: dict[str, Any]) -> bytes:
        called = asked["method"] == "tools/call"
        return (form % (asked["id"], WRITTEN)).encode() + b"\n" if called else answer(child, asked)

    monkeypatch.setattr(PlayedChild, "answer", written)
    with ToolPath() as path:
        bodies = path.bodies(2)
    kept = form.startswith('{"jsonrpc":"2.0"')
    assert len(bodies) == 2
    for body in bodies:
        assert json.loads(body) == {
            "status": 200,
            "result": {"tool_response": json.loads(WRITTEN)},
            "attribution": {"server_id": SERVER_ID},
        }
        assert (WRITTEN.encode() in body) is kept
