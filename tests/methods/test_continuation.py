"""Continuation-Tokens: the next part of a list, for the caller and query that had the first (AGTP-052)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.identity.keys import SigningKey
from agtphost.methods import continuation
from agtphost.methods.continuation import Continuations
from tests.methods.floor_hosts import CALLER, JUDGE, OTHER, FloorHost, body_of, endpoint


def parts(host: FloorHost, method: str, path: str, member: str, *, by: Any = CALLER, **asked: Any) -> list[list[Any]]:
    """Every part of a list, each fetched with the token of the one before."""
    found: list[list[Any]] = []
    headers: dict[str, str] = {}
    while True:
        answer = host.ask(method, path, by=by, headers=headers, **asked)
        assert answer.status == 200, answer.body
        found.append(body_of(answer)["result"][member])
        token = answer.headers.get("continuation-token")
        if token is None:
            return found
        assert len(found) < 20, "a list has an end"
        headers = {"Continuation-Token": token}


def send_messages(host: FloorHost, count: int, to: Any = OTHER) -> None:
    for number in range(count):
        host.result("NOTIFY", code=202, recipient=to.agent_id, content={"n": number})


def test_an_inbox_is_read_in_parts() -> None:
    """AGTP-052: the parts together are the list, in its order, each item once; the last has no token."""
    host = FloorHost()
    send_messages(host, 7)
    found = parts(host, "QUERY", "/notifications", "notifications", by=OTHER, limit=3)
    assert [len(part) for part in found] == [3, 3, 1]
    whole = host.result("QUERY", "/notifications", by=OTHER)["notifications"]
    assert [each for part in found for each in part] == whole
    exact = parts(host, "QUERY", "/notifications", "notifications", by=OTHER, limit=7)
    assert [len(part) for part in exact] == [7]


def test_items_that_come_and_go_shift_nothing() -> None:
    """What stays between two parts is neither repeated nor left out."""
    host = FloorHost()
    send_messages(host, 4)
    first = host.ask("QUERY", "/notifications", by=OTHER, limit=2)
    token = first.headers.get("continuation-token")
    shown = body_of(first)["result"]["notifications"]
    host.result("CONFIRM", by=OTHER, target_id=shown[0]["notification_id"], status="accepted")
    rest = body_of(host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers={"Continuation-Token": token or ""}))
    left = host.result("QUERY", "/notifications", by=OTHER)["notifications"]
    assert [each["notification_id"] for each in [shown[1], *rest["result"]["notifications"]]] == [
        each["notification_id"] for each in left
    ]


def test_escalations_come_in_parts() -> None:
    """AGTP-052: the same of QUERY /escalations."""
    host = FloorHost()
    for number in range(3):
        host.result("ESCALATE", code=202, task_id=f"t-{number}", reason="scope_limit", context={"n": number})
    found = parts(host, "QUERY", "/escalations", "escalations", limit=2)
    assert [len(part) for part in found] == [2, 1]


def test_a_token_is_good_for_its_caller_and_query_alone() -> None:
    """AGTP-052: another caller, another query, another method, a changed octet and another host's are 422."""
    host, other = FloorHost(), FloorHost(server_id="other.test")
    send_messages(host, 4)
    send_messages(other, 4)
    send_messages(host, 4, JUDGE)
    token = host.ask("QUERY", "/notifications", by=OTHER, limit=2).headers.get("continuation-token") or ""
    good = {"Continuation-Token": token}
    again = host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers=good)
    assert again.status == 200
    refused = [
        host.ask("QUERY", "/notifications", by=JUDGE, limit=2, headers=good),
        host.ask("QUERY", "/notifications", by=OTHER, limit=3, headers=good),
        host.ask("QUERY", "/notifications", by=OTHER, limit=2, box="sent", headers=good),
        host.ask("QUERY", "/escalations", by=OTHER, limit=2, headers=good),
        other.ask("QUERY", "/notifications", by=OTHER, limit=2, headers=good),
        host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers={"Continuation-Token": ""}),
        host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers={"Continuation-Token": "A" * 2_000}),
        host.ask("QUERY", "/notifications", by=OTHER, limit=2, continuation_token=7),
    ]
    for number in range(0, len(token), 7):
        changed = token[:number] + ("A" if token[number] != "A" else "B") + token[number + 1 :]
        refused.append(host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers={"Continuation-Token": changed}))
    for answer in refused:
        assert (answer.status, body_of(answer)["reason"]) == (422, "continuation-token-invalid")


def test_the_parameter_does_as_well_as_the_header() -> None:
    """For callers that write no header fields; both together have to agree."""
    host = FloorHost()
    send_messages(host, 4)
    token = host.ask("QUERY", "/notifications", by=OTHER, limit=2).headers.get("continuation-token") or ""
    whole = host.result("QUERY", "/notifications", by=OTHER)["notifications"]
    rest = host.result("QUERY", "/notifications", by=OTHER, limit=2, continuation_token=token)
    assert rest["notifications"] == whole[2:]
    answer = host.ask(
        "QUERY", "/notifications", by=OTHER, limit=2, continuation_token=token, headers={"Continuation-Token": "x"}
    )
    assert answer.status == 422


def test_a_token_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is good for a while, and nothing is kept for it."""
    host = FloorHost()
    send_messages(host, 4)
    token = host.ask("QUERY", "/notifications", by=OTHER, limit=2).headers.get("continuation-token") or ""
    host.advance(continuation.LIFE + 2)
    answer = host.ask("QUERY", "/notifications", by=OTHER, limit=2, headers={"Continuation-Token": token})
    assert answer.status == 422


def test_a_token_tells_nothing() -> None:
    """It is opaque: where the list goes on cannot be read from it, and no two are the same."""
    host = FloorHost()
    send_messages(host, 4)
    tokens = {
        host.ask("QUERY", "/notifications", by=OTHER, limit=2).headers.get("continuation-token") or "" for _ in range(3)
    }
    assert len(tokens) == 3
    shown = host.result("QUERY", "/notifications", by=OTHER)["notifications"]
    assert not any(shown[1]["notification_id"] in token or "ntf" in token for token in tokens)


def test_candidates_come_in_parts() -> None:
    """AGTP-052: DISCOVER's search gives the next results for its token, as for ``next_offset``."""
    from tests.identity.issued import CALLER as DEMO
    from tests.identity.issued import of_agent
    from tests.methods.hosts import MethodHost

    on = MethodHost(endpoints=[endpoint("QUERY", f"/papers/p{number}", "Finds papers.") for number in range(5)])
    asked = {"criteria": "papers", "limit": 2}
    found: list[list[Any]] = []
    headers: dict[str, str] = {"Agent-ID": DEMO.agent_id}
    proven = of_agent(DEMO.agent_id)
    while True:
        answers: list[Any] = []
        on.start("DISCOVER", "/", asked, headers=headers, certificate=proven).addCallback(answers.append)
        found.append([each["path"] for each in json.loads(answers[0].body)["result"]["results"]])
        token = answers[0].headers.get("continuation-token")
        if token is None:
            break
        headers["Continuation-Token"] = token
    assert [len(part) for part in found] == [2, 2, 1]
    assert sorted(path for part in found for path in part) == [f"/papers/p{number}" for number in range(5)]


def test_another_process_of_the_host_reads_its_tokens() -> None:
    """AGTP-052: with the same signing key and ``server_id``, as after a restart."""
    host, other = FloorHost(), FloorHost()
    send_messages(host, 4)
    send_messages(other, 4)
    token = host.ask("QUERY", "/notifications", by=OTHER, limit=2).headers.get("continuation-token") or ""
    headers = {"Continuation-Token": token}
    assert other.ask("QUERY", "/notifications", by=OTHER, limit=2, headers=headers).status == 200


def test_a_key_of_its_own() -> None:
    """A process makes its key; a given one is used, so that tokens can outlive a process."""
    with pytest.raises(ValueError):
        Continuations(b"short")


@pytest.mark.parametrize("seconds", [1, continuation.LIFE + 2])
def test_tokens_of_an_earlier_key_are_read_until_they_end(seconds: int) -> None:
    """After rotations; another process with the new key alone reads the new ones, and one with the old key those."""
    now = [1_800_000_000.0]
    context: Any = SimpleNamespace(
        headers={}, input={}, owner="c" * 64, peer=None, method="QUERY", path="/", agent=None
    )
    keys = [continuation.continuation_key(SigningKey.generate(), "x") for _ in range(3)]
    tokens = Continuations(keys[0], lambda: now[0])
    made = [tokens.token(context, 0)]
    for key in keys[1:]:
        tokens.adopt(key)
        made.append(tokens.token(context, len(made)))
    now[0] += seconds
    for number, (key, token) in enumerate(zip(keys, made, strict=True)):
        context.headers = {"continuation-token": token}
        if seconds > continuation.LIFE:
            with pytest.raises(Refusal):
                tokens.position(context)
            continue
        assert tokens.position(context) == number
        assert Continuations(key, lambda: now[0]).position(context) == number
        with pytest.raises(Refusal):
            Continuations(keys[number - 1], lambda: now[0]).position(context)


def test_a_key_derives_other_octets_for_each_purpose() -> None:
    """By HKDF, and never the key itself."""
    key = SigningKey.generate()
    assert key.derive("a") == key.derive("a") != key.derive("b")
    assert len(key.derive("a")) == 32 and key.derive("a") != key.seed
