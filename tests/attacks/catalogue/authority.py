"""Whose word is good for what: assertions, delegations, certificates, keys of calls, approvals and the bridge."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from agtphost.client.purchasing import Buyer
from agtphost.client.sync import Client
from agtphost.identity import delegation, documents
from agtphost.identity.certificates import Authority
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import AgentDescription, issue_agent
from agtphost.vocabulary.media_types import MCP_TOOLS
from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import agent_of, turns
from tests.dispatch.market import CART, PUBLIC, claims, signed
from tests.identity.callers import Caller, make_authority, place_caller, shows
from tests.system.hosting import BIN
from tests.system.raw_link import Answer, RawLink, client_context
from tests.system.test_merchant import ENDPOINTS, HANDLERS, SETTINGS

SOURCE = "127.0.3.1"
BOUND = 32 * MIB
_runs = count(1)


def refused(answer: Answer, *allowed: tuple[int, str]) -> None:
    """The answer is one of these refusals, or that the rate is used up."""
    assert (answer.status, answer.reason) in (*allowed, (429, "rate-limited")), (answer.status, answer.reason)


# Assertions


def sell(folder: Path) -> None:
    """A merchant ``shop``, and a platform whose assertions are believed."""
    registrar = SigningKey.load(folder / "state" / "registrar.key")
    said = AgentDescription(name="shop", description="Sells tea.", members={"role": "merchant"})
    issued = issue_agent(folder / "agents" / "shop", said, registrar, issuer="registrar.localhost")
    document = documents.decode(issued.document.read_bytes())
    assert document["role"] == "merchant"
    (folder / "endpoints" / "shop.toml").write_text(ENDPOINTS)
    (folder / "handlers" / "shop.py").write_text(HANDLERS)
    (folder / "platform.json").write_bytes(PUBLIC)
    with (folder / "host.toml").open("a") as file:
        file.write(SETTINGS)


def wrong_cart(target: Target, seconds: float) -> None:
    """An assertion for one cart, and purchases of anything else: 458 each, and nothing is sold."""
    demo, buyer_id = target.state / "agents" / "demo", agent_of(target, "demo")
    shop = json.loads((target.config.parent / "agents" / "shop" / "document.json").read_text())["agent_id"]
    trusted = Client(trust=target.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key")
    with trusted as client:
        party = Buyer(client).verify(f"agtp://{shop}@127.0.0.1:{target.port}")
    verified = {"Merchant_ID": party.merchant_id, "Merchant_Manifest_Fingerprint": party.fingerprint}
    goods = {"item": "a gold bar", "principal_id": "alice", "amount": {"value": "20.00", "currency": "EUR"}}
    with RawLink(target, context=client_context(target), source=SOURCE) as link:
        quote = link.ask("QUOTE", "/agents/shop/cart", {"cart": CART}).json()["result"]
        for _ in turns(seconds, most=2_000):
            text = signed(claims(shop, agent_id=buyer_id, item_digest=quote["cart_digest"]))
            answer = link.ask("PURCHASE", "/agents/shop/goods", goods, Intent_Assertion=text, **verified)
            refused(answer, (458, "intent-assertion-invalid"))


def narrowed(target: Target, seconds: float) -> None:
    """Delegation tokens that are narrower than what is asked under them: 551, before anything runs."""
    demo = agent_of(target, "demo")
    key = SigningKey.load(target.state / "agents" / "demo" / "agent.key")
    assistant = json.loads((target.config.parent / "agents" / "assistant" / "document.json").read_text())["agent_id"]

    def token(**changes: object) -> str:
        good: dict[str, object] = {
            "issuer": demo, "delegator": demo, "delegatee": assistant, "scope": ["documents:query"], "task_id": "t",
            "now": time.time(), **changes,
        }  # fmt: skip
        return delegation.issue(key, **good)  # type: ignore[arg-type]

    task = {"method": "ECHO", "path": "/text", "parameters": {"text": "x"}}
    narrow: list[Callable[[], tuple[str, dict[str, str]]]] = [
        lambda: (token(scope=["knowledge:query"]), {"Task_ID": "t"}),
        lambda: (token(), {}),
        lambda: (token(), {"Task_ID": "another"}),
        lambda: (token(delegatee=demo), {"Task_ID": "t"}),
        lambda: (token(now=time.time() - 900), {"Task_ID": "t"}),
        lambda: (token(depth=2, parent="0" * 64), {"Task_ID": "t"}),
    ]
    with RawLink(target, context=client_context(target), source=SOURCE) as link:
        for number in turns(seconds, most=2_000):
            text, fields = narrow[number % len(narrow)]()
            body = {"target_agent_id": assistant, "task": task, "authority_scope": "documents:query"}
            answer = link.ask("DELEGATE", "/", {**body, "delegation_token": text}, **fields)
            assert answer.status in (551, 429), (answer.status, answer.reason)


# Names


def victims_state(target: Target, seconds: float) -> None:
    """A victim's name without its certificate: its session, inbox, decisions and reads stay its own."""
    victim = agent_of(target, "other")
    session = os.urandom(16).hex()
    echo = {"text": "mine"}
    with (
        RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as own,
        RawLink(target, context=client_context(target, identified=False), source=SOURCE) as liar,
    ):
        assert own.ask("ECHO", "/text", echo, Session_ID=session).status == 200
        for number in turns(seconds, most=2_000):
            named = {"Agent_ID": victim}
            decision = {"target": "decision", "agent_id": victim, "method": "BOOK", "path": "/room"}
            refused(liar.ask("INSPECT", "/", decision, **named), (401, "agent-unauthenticated"))
            refused(
                liar.ask("QUERY", "/", {"intent": "rooms"}, Session_ID=session, **named),
                (401, "session-binding-mismatch"),
            )
            liar.ask("QUERY", "/", {"intent": "rooms"}, Session_ID=f"x-{number}", **named)
            refused(liar.ask("QUERY", "/notifications", **named), (401, "agent-unauthenticated"))
        answer = own.ask("ECHO", "/text", echo, Session_ID=session)
        assert answer.status == 200, answer.body


# Certificates


def two_authorities(folder: Path) -> None:
    """The deployment's own authority and a partner's; an agent whose Genesis names its key."""
    registrar = SigningKey.load(folder / "state" / "registrar.key")
    make_authority(folder, "partner")
    known = folder / "state" / "agents"
    key = SigningKey.generate()
    (folder / "keyed.key").write_bytes(key.pem)
    caller = place_caller(known, "keyed", registrar=registrar, agent_key=key.public)
    plain = place_caller(known, "plain", registrar=registrar)
    (folder / "callers.json").write_text(json.dumps({"keyed": caller.agent_id, "plain": plain.agent_id}))
    own = '\n[[tls.client_authority]]\nfile = "state/ca.pem"\nzones = ["*"]\n'
    theirs = '\n[[tls.client_authority]]\nfile = "partner.pem"\nzones = ["zone:partner"]\n'
    with (folder / "host.toml").open("a") as file:
        file.write(own + theirs)


def certificates(name: str, stem: str, reason: str) -> Callable[[Target, float], None]:
    """
    Requests with a certificate for an agent that its authority or its key does not stand for.

    :param name: the agent.
    :param stem: the authority's file.
    """

    def run(target: Target, seconds: float) -> None:
        folder = target.config.parent
        place = target.state if stem == "ca" else folder
        authority = Authority.load(place / f"{stem}.pem", place / f"{stem}.key")
        agent_id = json.loads((folder / "callers.json").read_text())[name]
        caller = Caller(name=name, agent_id=agent_id, zone="zone:development", scopes=("documents:query",))
        files = caller.certify(folder / "forged", f"{name}-{next(_runs)}", authority)
        for _ in turns(seconds, most=200):
            with RawLink(target, context=shows(target.state / "ca.pem", files), source=SOURCE) as link:
                for _ in range(10):
                    refused(link.ask("QUERY", "/", {"intent": "rooms"}), (401, reason))

    return run


# Keys of calls


def foreign_keys(target: Target, seconds: float) -> None:
    """The Idempotency-Key of another's booking, the request alike: nobody gets the other's answer."""
    run = next(_runs)
    with (
        RawLink(target, context=client_context(target), source=SOURCE) as own,
        RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as another,
        RawLink(target, context=client_context(target, identified=False), source=SOURCE) as liar,
    ):
        for turn in turns(seconds, most=300):
            day, month = turn % 27 + 1, turn // 27 % 12 + 1
            night = {
                "room": "attic",
                "arrival": f"{2060 + run}-{month:02}-{day:02}",
                "departure": f"{2060 + run}-{month:02}-{day + 1:02}",
            }
            key = {"Idempotency_Key": f"foreign-{run}-{turn}"}
            mine = own.ask("BOOK", "/room", night, **key)
            if mine.status != 200:
                continue
            booked = mine.json()["result"]["reservation_id"]
            for answer in (
                another.ask("BOOK", "/room", night, **key),
                liar.ask("BOOK", "/room", night, Agent_ID=agent_of(target, "demo"), **key),
            ):
                assert booked.encode() not in answer.body, "another's answer was given away"


# Approvals


def operated(folder: Path) -> None:
    """``demo`` may approve tools."""
    from tests.system.hosting import agtp

    shown = agtp("cert", "show", str(folder / "state" / "agents" / "demo" / "agent.pem"), "--json")
    amend(folder, "audit", f'operators = ["{json.loads(shown.stdout)["key_fingerprint"]}"]')


def unseen_approval(target: Target, seconds: float) -> None:
    """Approvals without a digest, and with one that is not the present one: 422 and 409."""

    def approval(**payload: object) -> dict[str, object]:
        given = {"tool": "files.list_files", **payload}
        return {"action": "mcp.tools.approve", "payload_type": MCP_TOOLS, "payload": given}

    with RawLink(target, context=client_context(target), source=SOURCE) as link:
        for number in turns(seconds, most=2_000):
            refused(link.ask("EXECUTE", "/", approval()), (422, "definition-digest-required"))
            stale = link.ask("EXECUTE", "/", approval(sha256=f"{number:064x}"))
            refused(stale, (409, "tool-definition-changed"))


# The bridge


def open_bridge(target: Target, seconds: float) -> None:
    """Another user of the machine guesses at a bridge's token: 401 each."""
    with subprocess.Popen(
        [str(BIN / "agtp"), "mcp-bridge", "--http", "0", "--as", "demo"],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=target.config.parent,
        text=True,
    ) as bridge:
        try:
            assert bridge.stderr is not None
            port = 0
            for line in bridge.stderr:
                if found := re.search(r"ready: http://127\.0\.0\.1:([0-9]+)/mcp", line):
                    port = int(found.group(1))
                    break
            assert port, "the bridge did not start"
            for number in turns(seconds, most=2_000):
                fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
                if number % 2:
                    fields["Authorization"] = f"Bearer {os.urandom(32).hex()}"
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                link.request("POST", "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', fields)
                assert link.getresponse().status == 401, "the bridge served a stranger"
                link.close()
        finally:
            bridge.terminate()


ATTACKS = (
    Attack(name="wrong-cart", who="agent", says=wrong_cart.__doc__ or "", run=wrong_cart, configure=sell,
           memory=BOUND),
    Attack(name="narrowed-tokens", who="agent", says=narrowed.__doc__ or "", run=narrowed, memory=BOUND),
    Attack(name="victims-state", who="stranger", says=victims_state.__doc__ or "", run=victims_state, memory=BOUND),
    Attack(name="another-key", who="agent", says="A certificate with another key than the Genesis names: 401.",
           run=certificates("keyed", "ca", "agent-key-mismatch"), configure=two_authorities, memory=BOUND),
    Attack(name="foreign-authority", who="agent", says="A partner's authority vouches for the host's own agents: 401.",
           run=certificates("plain", "partner", "certificate-authority-mismatch"), configure=two_authorities,
           memory=BOUND),
    Attack(name="foreign-keys", who="agent", says=foreign_keys.__doc__ or "", run=foreign_keys, memory=BOUND),
    Attack(name="unseen-approval", who="agent", says=unseen_approval.__doc__ or "", run=unseen_approval,
           configure=operated, memory=BOUND),
    Attack(name="bridge-without-token", who="stranger", says=open_bridge.__doc__ or "", run=open_bridge,
           memory=BOUND),
)  # fmt: skip
