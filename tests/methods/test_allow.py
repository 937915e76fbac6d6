"""AUTHORIZE on /grants with the scope ``allow``: it gives rights, and scopes by a statement of the issuer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from agtphost.identity import scope_statement
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey
from agtphost.testing.connection import Answer
from agtphost.testing.identities import TestAgent
from tests.methods.granting_hosts import GrantingHost

TOOL = "files.read_file"
CALENDAR = "booking:desk"


def stamp(**ahead: float) -> str:
    """Return a time relative to now, with microseconds."""
    return (datetime.now(UTC) + timedelta(**ahead)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Issuing(GrantingHost):
    """A host whose agent ``bare`` was issued without scopes."""

    def __init__(self) -> None:
        super().__init__()
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
