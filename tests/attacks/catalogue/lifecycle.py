"""Names, states, scopes and contracts of others."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from itertools import count

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import addresses, agent_of, each_alone, opened, said, turns
from tests.system.hosting import agtp
from tests.system.raw_link import Answer, RawLink, client_context, request

METHODS = ("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE")
SOURCE = "127.0.3.1"


def not_done(message: bytes, answer: Answer | None) -> None:
    """No success, and no surprise."""
    assert answer is None or (400 <= answer.status < 500) or answer.status in (262, 551, 503), (message[:200], answer)


def states(target: Target, seconds: float) -> None:
    """Strangers and agents change the state of an agent that is not theirs to change; it goes on calling."""
    victim = agent_of(target, "other")
    body = {"agent_id": victim, "reason": "compromise-detected"}
    messages = [request(method, path, body) for method in METHODS for path in ("/", "/agents/assistant")]
    each_alone(target, seconds / 2, messages, not_done)
    each_alone(target, seconds / 2, messages, not_done, agent="demo")
    with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as link:
        assert link.ask("ECHO", "/text", {"text": "still active"}).status == 200


def new_agents(target: Target, seconds: float) -> None:
    """Genesis documents that were changed, signed by nobody or by oneself: none is admitted."""
    genesis = json.loads((target.state / "agents" / "demo" / "genesis.json").read_text())
    changed = [
        {**genesis, "owner_id": "mallory"},
        {**genesis, "signature": "A" * 86},
        {name: value for name, value in genesis.items() if name != "signature"},
        {**genesis, "agent_id": "0" * 64},
        {**genesis, "more": ["x" * 1000] * 200},
    ]
    messages = [request("ACTIVATE", "/", {"genesis": each, "agent_genesis": each}) for each in changed]
    each_alone(target, seconds / 2, messages, not_done)
    each_alone(target, seconds / 2, messages, not_done, agent="demo")


def names_of_others(target: Target, seconds: float) -> None:
    """The Agent-ID of another, with and without a certificate of one's own: nothing that changes anything is done."""
    victim = agent_of(target, "honest")
    night = {"room": "garden", "arrival": "2031-01-01", "departure": "2031-01-02"}
    messages = [
        request("BOOK", "/room", night, Agent_ID=victim),
        request("EXECUTE", "/", {"action": "mcp.tools.call"}, Agent_ID=victim),
        request("SUSPEND", "/", {"session_id": "x"}, Agent_ID=victim, Session_ID="x"),
        request("BOOK", "/room", night, Agent_ID=victim.upper()),
    ]
    each_alone(target, seconds / 2, messages, not_done)
    each_alone(target, seconds / 2, messages, not_done, agent="demo")


def many_names(target: Target, seconds: float) -> None:
    """A new Agent-ID with every request, on 20 connections: nothing is kept of any."""
    context = client_context(target, identified=False)
    links = [opened(target, context, source) for source, _ in zip(addresses(), range(20), strict=False)]
    for _ in turns(seconds, most=500):
        for link in links:
            if link is None:
                continue
            try:
                link.send(b"".join(request("QUERY", "/", Agent_ID=os.urandom(32).hex()) for _ in range(10)))
                for _ in range(10):
                    answer = said(link)
                    assert answer is None or answer.status in (401, 429), answer
            except OSError:
                continue
    for link in links:
        if link is not None:
            link.close()


def scopes(target: Target, seconds: float) -> None:
    """Claims in odd forms, and far too many of them: never more than the document has."""
    odd = ["*:*:*", "A:b", "booking:*,", "a:", ":b", "booking", "*", "a:b c:d", "é:x", ",".join(["a:b"] * 1500)]
    odd.append(",".join(f"s{number}:t" for number in range(900)))
    messages = [request("BOOK", "/room", {"room": "attic"}, Authority_Scope=claim) for claim in odd if claim.isascii()]
    each_alone(target, seconds, messages, not_done, agent="demo")


def chains(target: Target, seconds: float) -> None:
    """The reserved Delegation-Chain, and tokens that are none: 501 and 551, before anything runs."""
    task = {"target_agent_id": agent_of(target, "honest"), "authority_scope": "*:*", "task": {"method": "QUERY"}}
    messages = [
        request("ECHO", "/text", {"text": "x"}, Delegation_Chain="a" * 2000),
        request("DELEGATE", "/", {**task, "delegation_token": "e30.e30." + "A" * 86}, Task_ID="t"),
        request("DELEGATE", "/", {**task, "delegation_token": "x" * 60_000}, Task_ID="t"),
        request("DELEGATE", "/", {**task, "deadline": "9999-01-01T00:00:00Z"}, Task_ID="t"),
    ]

    def judge(message: bytes, answer: Answer | None) -> None:
        status = None if answer is None else answer.status
        assert status is None or 400 <= status < 500 or status in (262, 501, 551), (message[:120], answer)

    each_alone(target, seconds, messages, judge, agent="demo")


_runs = count(1)


def one_key_at_once(target: Target, seconds: float) -> None:
    """Eight connections use one Idempotency-Key for the same booking at the same time: one room is taken."""
    run, context = next(_runs), client_context(target)
    links = [RawLink(target, context=context, source=SOURCE) for _ in range(8)]
    for turn in turns(seconds, most=300):
        day = turn % 27 + 1
        night = {
            "room": "library",
            "arrival": f"{2040 + run}-{turn // 27 % 12 + 1:02}-{day:02}",
            "departure": f"{2040 + run}-{turn // 27 % 12 + 1:02}-{day + 1:02}",
        }
        message = request("BOOK", "/room", night, Idempotency_Key=f"{run}-{turn}")
        for link in links:
            link.send(message)
        answers = [said(link) for link in links]
        taken = {answer.json()["result"]["reservation_id"] for answer in answers if answer and answer.status == 200}
        odd = [answer for answer in answers if answer is None or answer.status not in (200, 409, 429)]
        assert not odd, odd[0]
        assert len(taken) <= 1, f"one key took {len(taken)} rooms"
    for link in links:
        link.close()


def contracts_of_others(target: Target, seconds: float) -> None:
    """A Synthesis-ID that another agent got, and guesses at one: never honoured."""
    proposal = json.loads((target.config.parent / "proposals" / "catalogue.json").read_text())
    with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as owner:
        approved = owner.ask("PROPOSE", "/", {"endpoint": proposal, "requested_duration": "1h"})
        assert approved.status == 263, approved
        number = approved.json()["synthesis_id"]
        find = ("FIND", "/catalogue/9780141439518")
        messages = [
            request(*find, Contract_Synthesized=number),
            request(*find, Contract_Synthesized=number[:-1] + ("0" if number[-1] != "0" else "1")),
            request(*find, Contract_Synthesized="x" * 2000),
            request("SUSPEND", "/", {"synthesis_id": number, "reason": "mine"}),
        ]
        each_alone(target, seconds / 2, messages, not_done)
        each_alone(target, seconds / 2, messages, not_done, agent="demo")
        assert owner.ask(*find, Contract_Synthesized=number).status == 200, "its owner lost the contract"


def proposals(target: Target, seconds: float) -> None:
    """Large and odd proposals, one after the other: each is answered, and none takes long."""
    proposal = json.loads((target.config.parent / "proposals" / "catalogue.json").read_text())
    wide = {f"p{number}": {"type": "string"} for number in range(800)}
    deep: dict[str, object] = {"type": "object"}
    for _ in range(14):
        deep = {"type": "object", "properties": {"a": deep}}
    pattern = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    remote = {"$ref": "http://127.0.0.1:1/schema"}
    schemas = [{"type": "object", "properties": wide}, deep, pattern, remote, {"$ref": "#"}]
    messages = [request("PROPOSE", "/", {"endpoint": {**proposal, "input_schema": schema}}) for schema in schemas]

    def judge(message: bytes, answer: Answer | None) -> None:
        status = None if answer is None else answer.status
        assert status is None or status in (262, 263, 461, 464) or 400 <= status < 500, (message[:200], answer)

    each_alone(target, seconds, messages, judge, agent="demo")


def revoked_meanwhile(target: Target, seconds: float) -> None:
    """``other`` calls on four connections while its issuer revokes it: nothing succeeds once that was answered."""
    context, over = client_context(target, agent="other"), threading.Event()
    revoked, late = threading.Event(), []
    links = [RawLink(target, context=context, source=SOURCE) for _ in range(4)]

    def call(link: RawLink) -> None:
        while not over.is_set():
            known = revoked.is_set()
            over.wait(0.01)
            try:
                answer = link.ask("ECHO", "/text", {"text": "x"})
            except (AssertionError, OSError):  # The host may close what belongs to the agent.
                return
            if known and answer.status == 200:
                late.append(answer)

    threads = [threading.Thread(target=call, args=(link,), daemon=True) for link in links]
    for thread in threads:
        thread.start()
    try:
        words = ("agent", "revoke", "other", "--reason", "compromise-detected")
        done: subprocess.CompletedProcess[str] = agtp(*words, cwd=target.config.parent)
        assert done.returncode == 0, done.stdout + done.stderr
        revoked.set()
        over.wait(min(1.0, seconds))
    finally:
        over.set()
        for thread in threads:
            thread.join(120)
        for link in links:
            link.close()
    assert not late, f"{len(late)} calls succeeded after the revocation"


def _attack(name: str, who: str, says: str, run: object, **more: object) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack("states-of-others", "agent", "Lifecycle methods by those who are not the issuer: 401, 403.", states),
    _attack("changed-genesis", "agent", "Genesis documents that were changed or that nobody signed.", new_agents),
    _attack("names-of-others", "agent", "Another's Agent-ID, with and without a certificate.", names_of_others),
    _attack("random-agent-ids", "stranger", "A new Agent-ID a request: nothing is kept.", many_names, memory=20 * MIB),
    _attack("odd-scope-claims", "agent", "Authority-Scope in odd forms: never wider.", scopes),
    _attack("delegation-garbage", "agent", "Reserved headers and tokens that are none: 501, 551.", chains),
    _attack("one-key-at-once", "agent", "One Idempotency-Key on eight connections: one effect.", one_key_at_once),
    _attack("contracts-of-others", "agent", "Another's contract, or a guessed one: not honoured.", contracts_of_others),
    _attack("odd-proposals", "agent", "Schemas that are large, deep, remote or circular in PROPOSE.", proposals),
    _attack(
        "revoked-meanwhile", "agent", "Calls of an agent that is revoked: none succeeds.", revoked_meanwhile, alone=True
    ),
)
