"""Operators by name, key and role: what each may do, and what records say of it."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agtphost.config.operators import OperatorSection, operator_faults
from agtphost.errors import ConfigurationError
from agtphost.handlers.operators import NEEDED, OperatorAction, OperatorRole
from agtphost.identity import envelope
from agtphost.identity.keys import SigningKey
from agtphost.testing import MemoryHost
from agtphost.testing.identities import TestAgent
from agtphost.testing.identities import key_of as issued_key
from agtphost.testing.ledger import PromptCollector, PromptLedger
from tests.identity.samples import key_of
from tests.registry.hosts import card

KEYS = {name: key_of(f"operator {name}") for name in ("vera", "anna", "adam", "stranger")}
ROLES = {"vera": "viewer", "anna": "approver", "adam": "administrator"}

CARD = card(id="desk-001")

REQUESTS: dict[OperatorAction, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    OperatorAction.READ: (
        ("INSPECT", "/", {"target": "chains"}),
        ("INSPECT", "/", {"target": "agents"}),
        ("QUERY", "/grants", {}),
    ),
    OperatorAction.DECIDE: (("CONFIRM", "/", {"target_id": "ESCALATION", "status": "accepted"}),),
    OperatorAction.GRANT: (("AUTHORIZE", "/grants", {"subject": "demo", "scope": "call", "resource": "REPLY"}),),
    OperatorAction.REGISTRY: (("REGISTER", "/cards", {"card": CARD}),),
    OperatorAction.LIFECYCLE: (("DEACTIVATE", "/", {"agent_id": "DEMO"}), ("REINSTATE", "/", {"agent_id": "DEMO"})),
}


def entry(who: str, **changed: str) -> dict[str, str]:
    return {"name": who, "key": KEYS[who].public.fingerprint, "role": ROLES[who], **changed}


def spki(key: SigningKey) -> str:
    """The digest by another library than the program computes it."""
    octets = key.public.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{sha256(octets).hexdigest()}"


DEMO: dict[int, TestAgent] = {}
"""The agent of each host."""


def make_host(settings: dict[str, Any]) -> MemoryHost:
    host = MemoryHost({"registry": {}, "methods": {"standard": ["REPLY"]}, **settings})
    DEMO[id(host)] = host.agent("demo")
    return host


def demo(host: MemoryHost) -> TestAgent:
    return DEMO[id(host)]


@cache
def staffed_host() -> MemoryHost:
    """A host with one operator of each role."""
    return make_host({"operator": [entry(name) for name in ROLES]})


def certificate(host: MemoryHost, name: str) -> Any:
    return host.identities.of_key(KEYS[name])


def ask(host: MemoryHost, name: str, method: str, path: str, given: dict[str, Any]) -> Any:
    named = {"DEMO": demo(host).agent_id, "ESCALATION": f"task-{name}"}
    given = {key: named.get(value, value) if isinstance(value, str) else value for key, value in given.items()}
    return host.call(method, path, given, caller=certificate(host, name), wait=5)


def record_of(answer: Any) -> dict[str, Any]:
    return dict(envelope.parse_unverified("jws", str(answer.headers.get("attribution-record")).encode()))


@pytest.mark.parametrize("action", REQUESTS, ids=lambda action: action.name.lower())
@pytest.mark.parametrize("name", ["stranger", *ROLES])
def test_a_role_may_do_what_the_table_says(action: OperatorAction, name: str) -> None:
    """One table decides about every request; a refusal names the setting that would allow it."""
    host = staffed_host()
    asked = {"task_id": f"task-{name}", "reason": "ethical_flag", "context": {}}
    assert host.call("ESCALATE", "/", asked, caller=demo(host)).status == 202
    role = OperatorRole[ROLES[name].upper()] if name in ROLES else 0
    for method, path, given in REQUESTS[action]:
        answer = ask(host, name, method, path, given)
        assert (answer.status < 300) == (role >= NEEDED[action]), (method, path, answer.status, answer.body)
        if answer.reason == "operators-only" or (name in ROLES and answer.status >= 300):
            assert "[[operator]]" in answer.document["remedy"]
            assert NEEDED[action].label in answer.document["remedy"]
        if name in ROLES:
            assert record_of(answer)["operator"] == {"name": name, "key": spki(KEYS[name])}
        else:
            assert "operator" not in record_of(answer)


def test_an_agents_record_names_no_operator() -> None:
    """Only operators are named; the record of an agent is as before."""
    host = staffed_host()
    agent = host.agent("other")
    assert "operator" not in record_of(host.call("DISCOVER", "/", caller=agent))
    assert "operator" not in record_of(host.call("DISCOVER", "/"))


@pytest.mark.parametrize(
    ("settings", "name", "role"),
    [
        ({"audit": {"operators": [KEYS["adam"].public.fingerprint]}}, "administrator-", OperatorRole.ADMINISTRATOR),
        (
            {
                "audit": {"operators": [KEYS["adam"].public.fingerprint]},
                "notify": {"people": {"adam": KEYS["adam"].public.fingerprint}},
            },
            "adam",
            OperatorRole.ADMINISTRATOR,
        ),
        ({"admin": {"viewers": [KEYS["adam"].public.fingerprint]}}, "viewer-", OperatorRole.VIEWER),
        ({"operator": [entry("adam", key=spki(KEYS["adam"]))]}, "adam", OperatorRole.ADMINISTRATOR),
        (
            {"operator": [entry("adam", role="viewer")], "audit": {"operators": [KEYS["adam"].public.fingerprint]}},
            "adam",
            OperatorRole.VIEWER,
        ),
    ],
    ids=["audit", "named in notify", "viewers", "key as in records", "listed twice"],
)
def test_older_settings_map_to_roles(settings: dict[str, Any], name: str, role: OperatorRole) -> None:
    """``[audit] operators`` are administrators, ``[admin] viewers`` viewers; ``[[operator]]`` counts before both."""
    host = make_host(settings)
    answer = ask(host, "adam", "INSPECT", "/", {"target": "chains"})
    assert answer.status == 200, answer.body
    told = record_of(answer)["operator"]
    assert told["name"].startswith(name) and told["key"] == spki(KEYS["adam"])
    assert (ask(host, "adam", *REQUESTS[OperatorAction.GRANT][0]).status == 200) == (role is OperatorRole.ADMINISTRATOR)


def test_a_registrar_is_an_administrator_of_a_development_host_without_one() -> None:
    """The fallback has a name in records, and ends with the first administrator that the configuration lists."""
    development = {"host": {"profile": "development"}}
    host = make_host(development)
    registrar = host.identities.of_key(host.identities.registrar)
    answer = host.call("AUTHORIZE", "/grants", REQUESTS[OperatorAction.GRANT][0][2], caller=registrar, wait=5)
    assert answer.status == 200, answer.body
    assert record_of(answer)["operator"]["name"] == "registrar"
    listing = make_host({**development, "operator": [entry("adam")]})
    answer = listing.call("QUERY", "/grants", {}, caller=listing.identities.of_key(listing.identities.registrar))
    assert answer.status == 403 and "operator" not in record_of(answer)


def test_an_operator_replies_with_its_certificate_alone() -> None:
    """REPLY and REGISTER need no Agent-ID of an operator, and no remedy asks for one."""
    host = staffed_host()
    for name in ("anna", "adam"):
        answer = ask(host, name, "REPLY", "/", {"in_reply_to": "esc-1", "content": {"text": "done"}})
        assert answer.reason == "target-unknown", answer.body
    for name in ("vera", "stranger"):
        answer = ask(host, name, "REPLY", "/", {"in_reply_to": "esc-1", "content": {"text": "done"}})
        assert answer.status == 401, answer.body
        remedy = answer.document["remedy"]
        assert "Send Agent-ID" not in remedy and "[[operator]]" in remedy, remedy


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ([entry("adam"), entry("adam", key="a" * 64)], "is the name of another operator"),
        ([entry("adam"), entry("adam", name="Adam", key="a" * 64)], "is the name of another operator"),
        ([entry("adam"), entry("anna", key=entry("adam")["key"])], "is the key of another operator"),
        ([entry("adam", role="root")], "must be one of viewer, approver, administrator"),
        ([entry("adam", name="a\u202eb")], "visible characters"),
        ([entry("adam", name="")], "visible characters"),
        ([entry("adam", name="x" * 65)], "visible characters"),
        ([entry("adam", key="sha256:12")], "64 lower-case hexadecimal digits"),
        ([entry("adam", key="absent.pem")], "does not exist"),
        ([entry("adam", key="")], "must be a key fingerprint"),
        ([{"name": "adam", "role": "viewer"}], "key is missing"),
    ],
)
def test_a_wrong_entry_is_reported(entries: list[dict[str, str]], word: str) -> None:
    """Two operators never share a name or a key; names are one line without marks that reorder text."""
    with pytest.raises(ConfigurationError, match=word):
        MemoryHost({"operator": entries})


def test_a_certificate_that_is_not_there_yet_is_to_be_issued(tmp_path: Path) -> None:
    """The registrar's key, which was suggested to everybody, is the administrator's: two entries never share it."""
    state = tmp_path / "state"
    administrator = OperatorSection.model_validate({**entry("adam"), "key": str(state / "registrar.pem")})
    anna = OperatorSection.model_validate({**entry("anna"), "key": str(tmp_path / "anna.pem")})
    (fault,) = operator_faults([administrator, anna], state, makes=True)
    issuing = f"agtp cert issue client anna --ca {state}/ca.pem -o {tmp_path}/anna.pem"
    assert fault.hint is not None and fault.hint.startswith(f"run `{issuing}`; or write the fingerprint")
    (alone,) = operator_faults([anna], state, makes=True)
    assert alone.hint is not None and alone.hint.startswith(f'write key = "{state}/registrar.pem"')


class HeldCollector(PromptCollector):
    """Collects what is submitted, and hands it over as one group once it is told."""

    holding = False

    def _next_turn(self) -> None:
        if not self.holding:
            super()._next_turn()

    def release(self) -> None:
        # What follows from an answer is submitted in a later turn, as with a writer in a thread.
        self._take, prompt = lambda entries, octets: self._reactor.callLater(0, prompt, entries, octets), self._take
        self.holding = False
        super()._next_turn()


class HeldLedger(PromptLedger):
    """A ledger that commits the records of several calls together."""

    def __init__(self, store: Any, signer: Any, reactor: Any, **options: Any) -> None:
        super().__init__(store, signer, reactor, **options)
        self.collector = self._collecting = HeldCollector(reactor, self._write_at_once)


class GroupingHost(MemoryHost):
    """A host that commits the answers of several calls together."""

    writing = HeldLedger


@pytest.mark.parametrize("kind", ["escalation", "approval"])
def test_of_two_operators_who_decide_at_once_one_is_told_who_decided(kind: str) -> None:
    """One decision counts; the other operator is told who decided, also where both decisions came in one group."""
    host = GroupingHost({"operator": [entry(name) for name in ROLES]})
    DEMO[id(host)] = host.agent("demo")
    host.endpoint("REMOVE", "/room", lambda context: {}, approval="required")
    if kind == "escalation":
        asked = {"task_id": "t-both", "reason": "ethical_flag", "context": {}}
        target = host.call("ESCALATE", "/", asked, caller=demo(host)).result["escalation_id"]
    else:
        held = host.call("REMOVE", "/room", {}, caller=demo(host))
        target = held.document["approval_id"]
    collector = host.core.services.evidence.ledger.collector
    collector.holding = True
    found: list[Any] = []
    for name, status in (("anna", "accepted"), ("adam", "rejected")):
        given = {"target_id": target, "status": status}
        host.begin("CONFIRM", "/", given, caller=certificate(host, name)).addBoth(found.append)
    host.clock.settle()
    assert not found
    collector.release()
    host.clock.settle()
    first, second = found
    assert first.status == 200 and second.status == 409, (first.body, second.body)
    late = host.call("CONFIRM", "/", {"target_id": target, "status": "rejected"}, caller=certificate(host, "adam"))
    for refused in (second, late):
        assert refused.reason == "already-decided", refused.body
        assert refused.document["operator"] == {"name": "anna", "key": spki(KEYS["anna"])}
        assert "by anna at" in refused.document["explanation"]


def test_an_agent_that_is_an_operator_is_named_as_both() -> None:
    """A certificate that names an agent makes the request the agent's; the record names the operator too."""
    listed = entry("anna", key=issued_key("desk").public.fingerprint)
    host = MemoryHost({"methods": {"standard": ["REPLY"]}, "operator": [listed]})
    desk = host.agent("desk")
    answer = host.call("REPLY", "/", {"in_reply_to": "esc-1", "content": {}}, caller=desk)
    assert answer.reason == "target-unknown", answer.body
    record = record_of(answer)
    assert record["operator"]["name"] == "anna" and record["caller_id"] == desk.agent_id


def test_a_registrar_of_a_production_host_has_no_role() -> None:
    """Without an administrator it limits its own agents and reloads, and reads and decides nothing."""
    host = make_host({})
    registrar = host.identities.of_key(host.identities.registrar)
    for method, path, given in (REQUESTS[OperatorAction.READ][0], ("REGISTER", "/cards", {"card": CARD})):
        answer = host.call(method, path, given, caller=registrar)
        assert answer.status == 403 and "operator" not in record_of(answer), answer.body
    answer = host.call("AUTHORIZE", "/grants", REQUESTS[OperatorAction.GRANT][0][2], caller=registrar, wait=5)
    assert answer.status == 200, answer.body
