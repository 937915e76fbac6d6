"""What a server wrote is passed on as it stands, wherever only members beside it are added."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from agtphost.client.mcp.endpoints import AUDIT_ID
from agtphost.mcp.relayed_result import RelayedResult
from agtphost.vocabulary import jsontext
from tests.adapters.mcp.test_answer_octets import generated
from tests.bench.front_path import FrontPath
from tests.bench.tool_path import PlayedChild
from tests.programmes import seed_of_chance

LONG = "caf\\u00e9 " * 2_000
"""As a server may escape it, and this host does not."""


def test_what_is_spliced_means_what_would_be_encoded() -> None:
    """Whatever the members are, and whichever of them was changed or left out."""
    chance = random.Random(seed_of_chance())
    spliced = 0
    for _ in range(400):
        written = {f"m{number}": generated(chance) for number in range(chance.randrange(4))}
        octets = json.dumps(written, ensure_ascii=chance.random() < 0.5).encode()
        members: dict[str, Any] = {"resultType": "complete", **written, "_meta": {"n": 1}}
        change = chance.randrange(4)
        if change == 0 and written:
            members["m0"] = [members["m0"]]
        elif change == 1 and written:
            del members["m0"]
        found = RelayedResult(members, written, octets).splice()
        assert bool(found) is (bool(written) and change > 1)
        if found:
            spliced += 1
            assert jsontext.decode(found) == members
    assert spliced > 50


def test_octets_of_another_form_are_not_spliced() -> None:
    """White space before the object, line breaks in it, or nothing at all."""
    for octets in (b' {"a":1}', b'{"a":\r1}', b'{"a":1\n}', b"", b"[1]"):
        assert RelayedResult({"a": 1, "_meta": {}}, {"a": 1}, octets).splice() == b""


def let_server_write(result: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the played server answer each call of a tool with these octets."""
    answer = PlayedChild.answer

    def write(child: PlayedChild, asked: dict[str, Any]) -> bytes:
        if asked["method"] != "tools/call":
            return answer(child, asked)
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (asked["id"], result)

    monkeypatch.setattr(PlayedChild, "answer", write)


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize(("more", "kept"), [("", True), (',"_meta":{"own":1}', False), (',"x":1', True)])
def test_a_long_result_reaches_the_client_as_the_server_wrote_it(
    session: bool, more: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both eras; a result whose ``_meta`` the host completes is written anew, and means the same."""
    written = f'{{"content":[{{"type":"text","text":"notes.md {LONG}"}}],"structuredContent":{{"result":[]}}{more}}}'
    let_server_write(written.encode(), monkeypatch)
    with FrontPath(session=session) as path:
        (octets,) = path.answers(1)
    if session:
        octets = octets.rpartition(b"data: ")[2].partition(b"\r\n")[0]  # One event of a stream.
    result = json.loads(octets)["result"]
    own = json.loads(written)
    assert {name: result[name] for name in own if name != "_meta"} == {
        name: value for name, value in own.items() if name != "_meta"
    }
    assert AUDIT_ID in result["_meta"]
    assert (written.encode()[1:] in octets) is kept


def test_line_breaks_between_tokens_of_a_long_result_do_not_end_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A carriage return is white space to JSON, and ends a line of a stream: the client would read half a message."""
    written = b'{"content":[{"type":"text",\r"text":"notes.md %b"}],"structuredContent":{"result":[]}}' % LONG.encode()
    let_server_write(written, monkeypatch)
    with FrontPath(session=True) as path:
        (octets,) = path.answers(1)
    fields = [line.removeprefix(b"data: ") for line in octets.splitlines() if line.startswith(b"data: ")]
    assert json.loads(fields[-1])["result"]["content"] == json.loads(written)["content"]


def test_a_link_in_a_long_result_gets_the_address_that_clients_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is another one then, and is written anew."""
    link = '{"type":"resource_link","uri":"notes:///a","name":"a"}'
    written = f'{{"content":[{{"type":"text","text":"notes.md {LONG}"}},{link}],"structuredContent":{{"result":[]}}}}'
    let_server_write(written.encode(), monkeypatch)
    with FrontPath() as path:
        (octets,) = path.answers(1)
    assert json.loads(octets)["result"]["content"][1]["uri"] == "notes:///a"
    assert written.encode()[1:] not in octets
