"""AUTHORIZE on /grants with the scope ``allow``: it gives rights, and scopes by a statement of the issuer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agtphost.identity import documents, scope_statement
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey
from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent, key_of
from tests.methods.granting_hosts import GrantingHost

TOOL = "files.read_file"


def stamp(**ahead: float) -> str:
    """Return a time relative to now, with microseconds."""
    return (datetime.now(UTC) + timedelta(**ahead)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Issuing(GrantingHost):
    """A host whose agent ``bare`` was issued without scopes."""

    def __init__(self, settings: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(settings, **options)
        self.bare: TestAgent = self.agent("bare")
        self.twin: TestAgent = self.agent("twin")

    def restatement(
        self,
        scopes: Iterable[str],
        *,
        number: int = 1,
        agent: TestAgent | None = None,
        key: SigningKey | None = None,
        at: str | None = None,
        of: TestAgent | None = None,
        document_scopes: Iterable[str] | None = None,
    ) -> dict[str, str]:
        """Return what an operator sends with an AUTHORIZE: a statement, and the document issued with it."""
        subject = self.directory.by_id((agent or self.bare).agent_id)
        about = self.directory.by_id((of or agent or self.bare).agent_id)
        assert subject is not None and subject.genesis is not None
        assert about is not None and about.genesis is not None
        signer, now = key or self.identities.registrar, at or stamp()
        listed = tuple(scopes)
        document = scope_statement.restate_document(
            subject.document, listed if document_scopes is None else document_scopes, signer, stamp()
        )
        return {
            "statement": scope_statement.sign_statement(
                about.genesis, signer, number=number, scopes=listed, issued_at=now
            ),
            "document": canonical(document).decode(),
        }

    def allow(self, *things: str, agent: str = "bare", caller: Any = None, **more: Any) -> Answer:
        """What an operator sends to allow something."""
        given = {"subject": agent, "scope": "allow", **more}
        if things:
            given["resource"] = list(things)
        return self.call("AUTHORIZE", "/grants", given, caller=caller or self.operator)


def test_allow_leaves_an_agent_without_limits_as_it_was() -> None:
    """Nothing is added to an agent that may call everything its scopes allow, so nothing is taken from it either."""
    host = Issuing()
    done = host.allow(TOOL, agent="demo")
    assert done.status == 200 and not done.result["changed"] and not done.result["narrowed"]
    for thing in (TOOL, "files.write_file", "QUERY /words"):
        assert host.use(thing).status == 200, thing


def test_allow_adds_to_what_a_limited_agent_may_call() -> None:
    """The tool that it was limited to stays, and no end is brought forward."""
    host = Issuing()
    host.grant(TOOL)
    assert host.use("files.write_file").reason == "grant-required"
    done = host.allow("files.write_file", agent="demo")
    assert done.result["changed"] and done.result["newly_callable"] == ["files.write_file"]
    assert host.use("files.write_file").status == 200 and host.use(TOOL).status == 200
    again = host.allow(TOOL, agent="demo", until=stamp(hours=1))
    assert again.status == 200 and not again.result["changed"], "a grant without an end gets none"
    assert host.use("files.list_files").status == 455


def test_a_scope_beyond_the_genesis_needs_a_statement() -> None:
    """Without one the operator is refused, with the scopes that are missing; with one the agent calls."""
    host = Issuing()
    assert host.use(TOOL, host.bare).reason == "scope-required"
    refused = host.allow(TOOL)
    assert refused.status == 409 and refused.reason == "statement-required"
    assert refused.document["missing_scopes"] == ["mcp:tools:execute"]
    done = host.allow(TOOL, **host.restatement(["mcp:tools:execute"]))
    assert done.status == 200, done.document
    assert done.result["scopes_added"] == ["mcp:tools:execute"] and not done.result["narrowed"]
    assert done.record["extra"]["scopes_stated"]["number"] == 1
    assert done.record["operator"]["name"]
    agent = host.directory.by_id(host.bare.agent_id)
    assert agent is not None and agent.scopes == {"mcp:tools:execute"}
    again = TestAgent(agent=agent, key=host.bare.key, certificate=host.identities.of_agent(agent, host.bare.key))
    assert host.use(TOOL, again, connection=host.connect(again)).status == 200
    assert host.use(TOOL, host.bare).reason == "scope-required", "the old certificate commits to less"


def test_the_command_that_cures_a_missing_scope_ends_when_the_right_was_to_end() -> None:
    """The operator who types it gives no more than was asked for; an agent without limits gets no right that ends."""
    host = Issuing()
    end = "2199-01-31T12:00:00Z"
    unlimited = host.allow(TOOL, until=end)
    assert unlimited.status == 422 and "has no limits" in unlimited.document["explanation"]
    host.call(
        "AUTHORIZE", "/grants", {"subject": "bare", "scope": "call", "resource": ["QUERY /words"]}, caller=host.operator
    )
    for until, words in ({}, ""), ({"until": end}, f" --until {end}"):
        refused = host.allow(TOOL, **until)
        assert refused.status == 409 and refused.document["remedy"].endswith(f": agtp agent allow bare {TOOL}{words}")


def test_a_restarted_host_has_what_its_store_has() -> None:
    """After a restart on the same store the agent has the scopes of the statement, although its files lack them."""
    host = Issuing()
    assert host.allow(**host.restatement(["booking:desk"])).status == 200
    again = Issuing(store=host.store)
    found = again.core and again.directory.by_id(host.bare.agent_id)
    assert found is not None and found.scopes == {"booking:desk"}
    assert found.document["scopes_accepted"] == ["booking:desk"]


def test_inspect_shows_the_statement() -> None:
    """INSPECT of agents has number, scopes, what is beyond the Genesis, the issuer's signature and the record."""
    host = Issuing()
    done = host.allow(**host.restatement(["booking:desk"]))
    shown = host.call("INSPECT", "/", {"target": "agents", "name": "bare"}, caller=host.operator).result["agents"][0]
    stated = shown["scope_statement"]
    assert (stated["number"], stated["beyond_genesis"]) == (1, ["booking:desk"])
    assert stated["audit_id"] == done.reply.audit_id
    assert stated["statement"].count(".") == 2 and shown["scopes"] == ["booking:desk"]


def test_rights_tell_where_each_scope_comes_from() -> None:
    """Scopes of the Genesis are the document's; each further one keeps who gave it, when, and its record."""
    host = Issuing()
    host.allow(**host.restatement(["booking:desk"]))
    host.allow(**host.restatement(["booking:desk", "documents:query"], number=2))
    asked = {"agent": "bare", "rights": True}
    shown = host.call("QUERY", "/grants", asked, caller=host.operator).result["agents"][0]
    given = {each["scope"]: each["number"] for each in shown["scopes"]}
    assert given == {"booking:desk": 1, "documents:query": 2}
    assert len({each["audit_id"] for each in shown["scopes"]}) == 2
    demo = host.call("QUERY", "/grants", {"agent": "demo", "rights": True}, caller=host.operator).result["agents"][0]
    assert {each["from"] for each in demo["scopes"]} == {"document"} and TOOL in demo["may_call"]


# Attacks


def test_an_agent_cannot_allow_itself() -> None:
    """Neither with its own certificate, nor by a statement that another key than the issuer's signed."""
    host = Issuing()
    for given in ({"resource": [TOOL]}, host.restatement(["mcp:tools:execute"])):
        answer = host.call("AUTHORIZE", "/grants", {"subject": "bare", "scope": "allow", **given}, caller=host.bare)
        assert answer.status == 403 and answer.reason == "operators-only", answer.document
    assert host.use(TOOL, host.bare).reason == "scope-required"


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_a_lesser_role_cannot_allow(role: str) -> None:
    """Only administrators give rights; viewers read them."""
    key = key_of(role)
    listed = [
        {"name": "admin", "key": key_of("operator").public.fingerprint, "role": "administrator"},
        {"name": role, "key": key.public.fingerprint, "role": role},
    ]
    host = Issuing({"operator": listed})
    caller = host.identities.of_key(key)
    refused = host.allow(caller=caller, **host.restatement(["mcp:tools:execute"]))
    assert refused.status == 403 and "administrator" in str(refused.remedy)
    read = host.call("QUERY", "/grants", {"agent": "bare", "rights": True}, caller=caller)
    assert read.status == 200 and read.result["agents"][0]["scopes"] == []


def test_the_issuer_decides_only_where_no_administrator_is_listed() -> None:
    """The registrar's signature alone gives no right on a host whose administrators are others."""
    host = Issuing()
    registrar = host.identities.of_key(host.identities.registrar)
    assert host.allow(caller=registrar, **host.restatement(["mcp:tools:execute"])).status == 403


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "another key signs": ({"key": key_of("mallory")}, "not signed by the issuer"),
    "about another agent": ({"of": "twin"}, "another agent"),
    "too old": ({"at": stamp(seconds=-scope_statement.LIFETIME - 60)}, "expired"),
    "of a time to come": ({"at": stamp(hours=2)}, "time in the future"),
    "a number too high": ({"number": 7}, "next one is 1"),
    "another list than the document's": ({"document_scopes": ["booking:desk", "*:*"]}, "other scopes"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_statement_that_is_not_to_be_believed_gives_nothing(name: str) -> None:
    """It is refused with 403, the record has the operator who sent it, and the agent has what it had."""
    changed, said = FORGED[name]
    host = Issuing()
    given = {each: host.twin if value == "twin" else value for each, value in changed.items()}
    refused = host.allow(**host.restatement(["booking:desk"], **given))
    assert refused.status == 403 and refused.reason == "statement-refused", refused.document
    assert said in refused.document["explanation"], refused.document
    assert refused.record["operator"]["name"]
    agent = host.directory.by_id(host.bare.agent_id)
    assert agent is not None and not agent.scopes


def test_a_document_that_says_something_else_is_refused() -> None:
    """Only scopes and times may differ: neither the owner nor the description changes in passing."""
    host = Issuing()
    given = host.restatement(["booking:desk"])
    document = json.loads(given["document"])
    document["description"] = "Something else."
    forged = documents.sign(document, document["manifest_issuer"], host.identities.registrar)
    refused = host.allow(**{**given, "document": canonical(forged).decode()})
    assert refused.status == 403 and "more than its scopes" in refused.document["explanation"]
    unsigned = {name: value for name, value in document.items() if not name.startswith("manifest_")}
    refused = host.allow(**{**given, "document": canonical(unsigned).decode()})
    assert refused.status == 403 and "not signed" in refused.document["explanation"]


def test_a_statement_cannot_come_back_after_it_was_superseded() -> None:
    """What gave a scope gives it no more once the scope was taken back; the old document counts for nothing either."""
    host = Issuing()
    first = host.restatement(["booking:desk", "mcp:tools:execute"])
    assert host.allow(**first).status == 200
    second = {"subject": "bare", **host.restatement(["booking:desk"], number=2)}
    taken = host.call("REVOKE", "/grants", second, caller=host.operator)
    assert taken.status == 200 and taken.result["scopes_taken"] == ["mcp:tools:execute"], taken.document
    replayed = host.allow(**first)
    assert replayed.status == 403 and "superseded" in replayed.document["explanation"]
    mixed = {**host.restatement(["booking:desk"], number=3), "document": first["document"]}
    assert host.allow(**mixed).reason == "statement-refused"
    agent = host.directory.by_id(host.bare.agent_id)
    assert agent is not None and agent.scopes == {"booking:desk"}


def test_an_older_certificate_and_document_give_nothing_back() -> None:
    """A client that keeps the certificate of more scopes calls what the statement on record gives, and no more."""
    host = Issuing()
    first = host.restatement(["mcp:tools:execute"])
    host.allow(**first)
    agent = host.directory.by_id(host.bare.agent_id)
    assert agent is not None
    wide = TestAgent(agent=agent, key=host.bare.key, certificate=host.identities.of_agent(agent, host.bare.key))
    link = host.connect(wide)
    assert host.use(TOOL, wide, connection=link).status == 200
    taken = {"subject": "bare", **host.restatement([], number=2)}
    assert host.call("REVOKE", "/grants", taken, caller=host.operator).status == 200
    assert host.use(TOOL, wide, connection=link).reason == "scope-required", "on the connection that is open"
    # The operator's files are of the time before: a host that starts with them goes by the record.
    again = Issuing(store=host.store)
    restored = scope_statement.apply_statement(agent, **statement_on_record(again, host.bare.agent_id))
    assert restored.scopes == frozenset()


def statement_on_record(host: Issuing, agent_id: str) -> dict[str, str]:
    """Return statement and document on record."""
    value = host.core.services.scopes.find(agent_id)
    assert value is not None
    return {"text": value["statement"], "document": value["document"]}


def test_a_limited_agent_gets_nothing_by_an_earlier_document() -> None:
    """A limit holds whatever the document says: a statement of more scopes leaves the grants as they are."""
    host = Issuing()
    host.grant(TOOL, agent="bare")
    done = host.allow(**host.restatement(["mcp:tools:execute", "booking:desk"]))
    assert done.status == 200 and done.result["narrowed"]
    agent = host.directory.by_id(host.bare.agent_id)
    assert agent is not None
    wide = TestAgent(agent=agent, key=host.bare.key, certificate=host.identities.of_agent(agent, host.bare.key))
    link = host.connect(wide)
    assert host.use(TOOL, wide, connection=link).status == 200
    assert host.use("files.write_file", wide, connection=link).reason == "grant-required"


def test_a_statement_that_takes_scopes_is_no_allow() -> None:
    """AUTHORIZE refuses a statement that leaves out a scope, and REVOKE one that adds a scope."""
    host = Issuing()
    host.allow(**host.restatement(["booking:desk"]))
    fewer = host.allow(**host.restatement([], number=2))
    assert fewer.status == 422 and "removes booking:desk" in fewer.document["explanation"]
    more = {"subject": "bare", **host.restatement(["booking:desk", "documents:query"], number=2)}
    assert host.call("REVOKE", "/grants", more, caller=host.operator).status == 422
    none = {"subject": "bare", "statement": None, "document": None}
    assert host.call("REVOKE", "/grants", none, caller=host.operator).status == 422


def test_no_command_gives_what_a_caller_made_up() -> None:
    """An agent that claims or calls a wildcard is refused without a command that an operator might type."""
    host = Issuing()
    claimed = host.use("QUERY /words", headers={"Authority-Scope": "*:*"})
    assert claimed.reason == "scope-claim-invalid" and "agtp agent" not in str(claimed.remedy)
    host.grant(TOOL)
    asked = host.use("files.*")
    assert "agtp agent" not in str(asked.document.get("remedy", ""))
    one = host.use("QUERY /words", headers={"Authority-Scope": "payments:move"})
    assert str(one.remedy).endswith(": agtp agent allow demo payments:move")


def test_two_operators_at_a_time_do_not_lose_a_statement() -> None:
    """Of two statements with one number the second is refused; nothing of it counts."""
    host = Issuing()
    one, other = host.restatement(["booking:desk"]), host.restatement(["documents:query"])
    assert host.allow(**one).status == 200
    refused = host.allow(**other)
    assert refused.status == 403 and "number 1 is on record" in refused.document["explanation"]


def test_a_store_that_was_changed_gives_no_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that cannot be believed when the host reads it leaves its agent without any scope."""
    host = Issuing()
    host.allow(agent="demo", **host.restatement([*host.demo.agent.scopes, "payments:move"], agent=host.demo))
    item = dict(host.core.services.scopes.find(host.demo.agent_id) or {})
    head, payload, signature = item["statement"].split(".")
    with pytest.raises(scope_statement.StatementError):
        scope_statement.apply_statement(host.demo.agent, f"{head}.{payload}.{signature[::-1]}", item["document"])
    found = host.core.services.scopes
    monkeypatch.setattr(found, "find", lambda agent_id: {**item, "statement": f"{head}.{payload}.{signature[::-1]}"})
    assert found.apply(host.demo.agent).scopes == frozenset()
