"""Domains that expire, are renewed and change hands: what becomes of the agents under them (core v08 section 11.8)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.audit import retention
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.audit.verify import verify_records
from agtphost.host.domains import DomainWatch
from agtphost.identity import jws
from agtphost.identity.agents import Agent
from agtphost.identity.peer import PeerCertificate
from agtphost.methods.oversight.notification import NOTIFICATION
from agtphost.stores import Selection, open_store
from agtphost.stores.rows import StateRow
from tests.audit.drafting import sqlite_store
from tests.identity.issued import REGISTRAR, SIGNING, STRANGER, agent, of_agent, of_key
from tests.memory import body_of
from tests.methods.hosts import MethodHost, reading

T0 = 1_800_000_000.0
DAY = 86_400.0
OWN = "agtp.test"


def agent_under(
    domain: str, name: str, owner: str = "acme.tld", *, hosted: bool = True, status: str = "active"
) -> Agent:
    """An agent whose document names its domain."""
    made = agent(name, hosted=hosted, status=status)
    return replace(made, owner_id=owner, document={**made.document, "org_domain": domain})


DESK = agent_under("example.com", "desk")
SUB = agent_under("eu.example.com", "sub", hosted=False)
LIKE = agent_under("notexample.com", "like")
PLAIN = agent("plain", hosted=True)
"""Names no domain, so it stands under the host's own."""


class DomainsHost:
    """A host with a real ledger, whose time is the test's."""

    def __init__(self, store: Any, agents: Sequence[Agent], operators: frozenset[str], start: float) -> None:
        self.now = start
        self.clock = Clock()
        self.store = store
        self.states = LifecycleTable()
        self.held = StateTable(lambda: self.now)
        self.ledger = Ledger(
            store,
            SIGNING,
            reactor,
            server_id=OWN,
            lifecycle=self.states,
            held=self.held,
            now=lambda: self.now,  # type: ignore[arg-type]
        )
        self.memory = MethodHost(
            {"host": {"server_id": OWN}, "audit": {"operators": sorted(operators)}},
            agents=agents,
            ledger=self.ledger,
            states=self.states,
            held=self.held,
            records=reading(store),
        )
        self.memory.seconds = lambda: self.now  # type: ignore[method-assign]
        self.watch = DomainWatch(
            self.clock,
            self.held,
            self.memory.directory,
            self.states.state_of,
            self.ledger,
            lambda who, status, fields: retention.retention_changes(who, status, fields, self.now),
            OWN,
            now=lambda: self.now,
        )

    async def tell(
        self, method: str, certificate: PeerCertificate | None = None, **given: Any
    ) -> tuple[int, Mapping[str, Any]]:
        """Status and result, or refusal, of a request by the registrar, and what follows from it at once."""
        response = await self.memory.start(method, "/", given, certificate=certificate or of_key(REGISTRAR))
        await self.settled()
        body = body_of(response)
        return response.status, body.get("result", body)

    async def settled(self) -> None:
        while self.watch._checking is not None:
            pause: Deferred[None] = Deferred()
            reactor.callLater(0.005, pause.callback, None)
            await pause

    async def later(self, seconds: float) -> None:
        self.now += seconds
        self.clock.advance(seconds)
        await self.settled()

    def status(self, who: Agent) -> str:
        return self.states.state_of(who).status.value

    def events(self, who: Agent) -> list[str]:
        """The agent's events, oldest first, once the whole store verifies."""
        keys = {SIGNING.kid: SIGNING.public}
        assert verify_records(self.store.reader().records(Selection()), keys).ok
        found = [one for one in self.store.reader().records(Selection()) if one.chain == who.agent_id]
        return [str(jws.verify(one.signed.decode(), keys)["event_type"]) for one in found if one.kind == "event"]

    async def namespace(self) -> list[str]:
        """The labels in the signed namespace document."""
        response = await self.memory.start("DESCRIBE", "/agents")
        return [entry["agent_label"] for entry in json.loads(response.body)["agents"]]

    async def discovered(self) -> list[str]:
        """The labels that DISCOVER lists."""
        response = await self.memory.start("DISCOVER", "/agents")
        return [entry["name"] for entry in json.loads(response.body)]


@asynccontextmanager
async def running(
    folder: Path, *agents: Agent, operators: frozenset[str] = frozenset(), start: float = T0, store: Any = None
) -> AsyncIterator[DomainsHost]:
    """A host that runs."""
    made = DomainsHost(store or sqlite_store(folder), agents or (DESK, SUB, LIKE, PLAIN), operators, start)
    made.ledger.start()
    made.watch.startService()
    try:
        yield made
    finally:
        made.watch.stopService()
        await made.ledger.stop()


@pytest_twisted.ensureDeferred
async def test_a_whole_expiry(tmp_path: Path) -> None:
    """
    AGTP-181: told first, suspended when the grace is over, deprecated after 90 days, and still out of service then.

    Agents of subdomains are under the domain too; others are left alone.
    """
    async with running(tmp_path) as host:
        status, result = await host.tell("DEACTIVATE", org_domain="Example.com", grace=3600)
        assert status == 200 and {one["name"] for one in result["agents"]} == {"desk", "sub"}
        # Notified, and nothing else yet: agent and those who look after it.
        notes = [item.value for item in host.held.all(NOTIFICATION)]
        assert {(note["recipient"], note["sender"]) for note in notes} == {
            (to, who.agent_id) for who in (DESK, SUB) for to in ("operator", who.agent_id)
        }
        assert notes[0]["content"]["principal"] == "Acme"
        assert host.status(DESK) == host.status(SUB) == "active" and host.events(DESK) == ["org-domain-expired"]
        await host.later(3599)
        assert host.status(DESK) == "active"
        await host.later(1)
        assert (host.status(DESK), host.status(SUB)) == ("suspended", "suspended")
        assert (host.status(LIKE), host.status(PLAIN)) == ("active", "active")
        await host.later(89 * DAY)
        assert host.status(DESK) == "suspended"
        await host.later(DAY)
        assert host.status(DESK) == "deprecated" and host.states.state_of(DESK).is_stopped
        assert host.events(DESK) == ["org-domain-expired", "agent-lifecycle-suspended", "agent-lifecycle-deprecated"]
        refused = await host.memory.start("QUERY", "/agents/desk/x", {})
        assert (refused.status, body_of(refused)["reason"]) == (503, "org-domain-expired")
        [kept] = [item.value for item in host.held.all(retention.RETAINED) if item.key == DESK.agent_id]
        assert kept["status"] == "deprecated" and kept["label"] == "desk"


def test_a_deprecated_agent_of_another_kind_serves_on() -> None:
    """AGTP-181, the control: what its issuer deprecated is not stopped by that."""
    states = LifecycleTable()
    row = StateRow(status="deprecated", since="2026-06-01T00:00:00Z", reason="old", successor=None, deadline=None)
    states.apply(DESK.agent_id, row)
    assert not states.state_of(DESK).is_stopped
    states.apply(DESK.agent_id, row._replace(reason="org-domain-expired: example.com"))
    assert not states.state_of(DESK).is_stopped
    states.apply(DESK.agent_id, row._replace(org_domain="example.com"))
    assert states.state_of(DESK).is_stopped


@pytest_twisted.ensureDeferred
async def test_a_reason_in_the_hosts_words_is_a_reason(tmp_path: Path) -> None:
    """What an issuer stopped in these words does not come back with the domain, and says nothing of a renewal."""
    async with running(tmp_path, DESK, SUB) as host:
        told = {"agent_id": SUB.agent_id, "reason": "org-domain-expired: example.com"}
        assert (await host.tell("DEACTIVATE", **told))[0] == 200
        await host.tell("DEACTIVATE", org_domain="example.com")
        assert (await host.tell("REINSTATE", org_domain="example.com"))[0] == 200
        assert (host.status(DESK), host.status(SUB)) == ("active", "suspended")


@pytest.mark.parametrize("days", [0, 91])
@pytest_twisted.ensureDeferred
async def test_its_owner_renews_it(tmp_path: Path, days: int) -> None:
    """AGTP-181: a renewal reinstates what the expiry stopped, early or late, and nothing that was stopped before."""
    async with running(tmp_path, DESK, SUB, PLAIN) as host:
        assert (await host.tell("DEACTIVATE", agent_id=SUB.agent_id, reason="a leak"))[0] == 200
        await host.tell("DEACTIVATE", org_domain="example.com")
        assert (host.status(DESK), host.status(SUB)) == ("suspended", "suspended")
        await host.later(days * DAY)
        status, _ = await host.tell("REINSTATE", org_domain="example.com")
        assert status == 200 and (host.status(DESK), host.status(SUB)) == ("active", "suspended")
        assert host.events(DESK)[-2:] == ["org-domain-renewed", "agent-lifecycle-reinstated"]
        await host.later(91 * DAY)
        assert (host.status(DESK), host.status(SUB)) == ("active", "suspended"), "the expiry is over"
        assert (await host.tell("REINSTATE", agent_id=SUB.agent_id))[0] == 200


@pytest_twisted.ensureDeferred
async def test_nobody_brings_an_agent_back_while_its_domain_is_gone(tmp_path: Path) -> None:
    """AGTP-181: the issuer's REINSTATE and ACTIVATE are 409 until the domain is renewed."""
    async with running(tmp_path) as host:
        await host.tell("DEACTIVATE", org_domain="example.com")
        for method in ("REINSTATE", "ACTIVATE"):
            status, refused = await host.tell(method, agent_id=DESK.agent_id)
            assert (status, refused["reason"]) == (409, "org-domain-expired")
        await host.tell("REINSTATE", org_domain="example.com")
        assert host.status(DESK) == "active"


@pytest_twisted.ensureDeferred
async def test_a_new_owner_inherits_nothing(tmp_path: Path) -> None:
    """
    AGTP-182: agents of the owner before are neither listed nor operable, at once and for good; its own are both.

    The domain's return to the owner before is told like any change of hands.
    """
    own = agent_under("example.com", "fresh", owner="newcorp")
    async with running(tmp_path, DESK, SUB, PLAIN, own) as host:
        assert set(await host.namespace()) == set(await host.discovered()) == {"desk", "fresh", "plain"}
        status, _ = await host.tell("REINSTATE", org_domain="example.com", owner_id="newcorp")
        assert status == 200
        for after in (0.0, 91 * DAY):
            await host.later(after)
            assert set(await host.namespace()) == set(await host.discovered()) == {"fresh", "plain"}
            refused = await host.memory.start("QUERY", "/agents/desk/x", {})
            assert refused.status == 503
            assert (await host.memory.start("QUERY", "/x", {}, certificate=of_agent(SUB.agent_id))).status == 503
            named = {"Agent-ID": SUB.agent_id}
            assert (await host.memory.start("DISCOVER", "/methods", {}, headers=named)).status == 503
            # Who merely names it, where no name is needed to be refused, learns nothing of it.
            told = [
                await host.memory.start("QUERY", "/x", {}, headers={"Agent-ID": who})
                for who in (SUB.agent_id, "ab" * 32)
            ]
            assert [each.status for each in told] == [404, 404] and told[0].body == told[1].body
            status, refusal = await host.tell("ACTIVATE", agent_id=DESK.agent_id)
            assert (status, refusal["reason"]) == (409, "org-domain-transferred")
            status, refusal = await host.tell("REINSTATE", org_domain="example.com")
            assert (status, refusal["reason"]) == (409, "org-domain-transferred")
            assert host.status(own) == "active"
        assert host.status(DESK) == "deprecated"
        await host.tell("REINSTATE", org_domain="example.com", owner_id="acme.tld")
        assert (host.status(DESK), host.status(own)) == ("active", "suspended")


@pytest_twisted.ensureDeferred
async def test_an_agent_that_comes_later_is_under_it_too(tmp_path: Path) -> None:
    """AGTP-182: an agent of the owner before that is loaded after the transfer is stopped when it is seen."""
    async with running(tmp_path, PLAIN) as host:
        await host.tell("REINSTATE", of_key(STRANGER), org_domain="example.com", owner_id="newcorp")
        assert not list(host.held.all("org-domain")), "with no agent concerned it takes an operator"
    folder = tmp_path / "second"
    folder.mkdir()
    operators = frozenset({STRANGER.public.fingerprint})
    async with running(folder, PLAIN, operators=operators) as host:
        status, _ = await host.tell("REINSTATE", of_key(STRANGER), org_domain="example.com", owner_id="newcorp")
        assert status == 200
        host.memory.directory.admit([DESK])
        host.watch.check()
        await host.settled()
        assert host.status(DESK) == "suspended" and "desk" not in await host.discovered()


@pytest_twisted.ensureDeferred
async def test_a_host_that_was_down_goes_on_where_time_has_got_to(tmp_path: Path) -> None:
    """AGTP-181: the flag is durable; what fell due meanwhile is recorded at the next start."""
    store = sqlite_store(tmp_path)
    async with running(tmp_path, store=store) as host:
        await host.tell("DEACTIVATE", org_domain="example.com", expires_at="2027-02-15T08:00:00Z")
        assert host.status(DESK) == "active"
    moment = datetime(2027, 2, 15, 8, 0, 1, tzinfo=UTC).timestamp()
    again = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=False)
    async with running(tmp_path, store=again, start=moment) as host:
        await host.settled()
        assert host.status(DESK) == "suspended"
    late = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=False)
    async with running(tmp_path, store=late, start=moment + 90 * DAY) as host:
        await host.settled()
        assert host.status(DESK) == "deprecated"


@pytest_twisted.ensureDeferred
async def test_who_may_tell(tmp_path: Path) -> None:
    """AGTP-181: neither strangers, nor agents, nor a registrar of some of the agents alone; nothing changes."""
    async with running(tmp_path) as host:
        assert (await host.memory.start("DEACTIVATE", "/", {"org_domain": "example.com"})).status == 401
        of_caller = of_agent(DESK.agent_id)
        assert (await host.tell("DEACTIVATE", of_caller, org_domain="example.com"))[0] == 403
        assert (await host.tell("DEACTIVATE", of_key(STRANGER), org_domain="example.com"))[0] == 403
        assert not list(host.held.all("org-domain"))
    folder = tmp_path / "mixed"
    folder.mkdir()
    async with running(folder, DESK, replace(SUB, genesis=None)) as host:
        assert (await host.tell("DEACTIVATE", org_domain="example.com"))[0] == 403


@pytest.mark.parametrize(
    ("method", "given", "status"),
    [
        ("DEACTIVATE", {"org_domain": "127.0.0.1"}, 422),
        ("DEACTIVATE", {"org_domain": "a b"}, 422),
        ("DEACTIVATE", {"org_domain": 5}, 422),
        ("DEACTIVATE", {"org_domain": "example.com", "grace": 86_401}, 422),
        ("DEACTIVATE", {"org_domain": "example.com", "grace": -1}, 422),
        ("DEACTIVATE", {"org_domain": "example.com", "expires_at": "tomorrow"}, 422),
        ("DEACTIVATE", {"org_domain": "example.com", "expires_at": "2099-01-01T00:00:00Z"}, 422),
        ("DEACTIVATE", {"org_domain": "example.com", "agent_id": "ab" * 32}, 400),
        ("REVOKE", {"org_domain": "example.com", "reason": "x"}, 400),
        ("REINSTATE", {"org_domain": "example.com"}, 404),
        ("REINSTATE", {"org_domain": "example.com", "owner_id": "a\nb"}, 422),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_cannot_be_told(tmp_path: Path, method: str, given: dict[str, Any], status: int) -> None:
    """AGTP-181: grace is 24 hours at most; a refusal changes nothing."""
    async with running(tmp_path) as host:
        found, refused = await host.tell(method, **given)
        assert found == status and refused["remedy"], refused
        assert host.status(DESK) == "active" and not list(host.held.all("org-domain"))


@pytest_twisted.ensureDeferred
async def test_told_twice(tmp_path: Path) -> None:
    """The second time is a noop, and the 90 days go on from the first."""
    async with running(tmp_path) as host:
        _, first = await host.tell("DEACTIVATE", org_domain="example.com")
        await host.later(DAY)
        _, second = await host.tell("DEACTIVATE", org_domain="example.com")
        assert second["noop"] and second["deprecate_at"] == first["deprecate_at"]
        assert host.events(DESK).count("org-domain-expired") == 1


@pytest_twisted.ensureDeferred
async def test_the_hosts_own_domain(tmp_path: Path) -> None:
    """Hosted agents that name no domain stand under the host's; a deprecated one is deprecated again afterwards."""
    async with running(tmp_path, DESK, PLAIN) as host:
        await host.tell("DEPRECATE", agent_id=PLAIN.agent_id)
        await host.tell("DEACTIVATE", org_domain=OWN)
        assert host.status(DESK) == "active" and host.states.state_of(PLAIN).is_lapsed
        await host.tell("REINSTATE", org_domain=OWN)
        state = host.states.state_of(PLAIN)
        assert state.status is LifecycleStatus.DEPRECATED and not state.is_stopped
