"""
Negotiation as AGTP-API sections 10.1 and 10.3 tell it: over TLS, two agents, a recipe's edit, and restarts.

One directory serves the whole story; the tests run in the order they stand in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests.system.hosting import ETC, Host, agtp, running, sample, until

POLICIES = """
[policies.rcns]
enabled = true
min_trust_tier = 2
[policies.synthesis]
max_impact = "irreversible"
persistent = true
[[data_class]]
name = "stays"
description = "Nights in the guest house."
requires_authorization = true
"""

RECIPE = """
[[recipe]]
name = "guest-stay"
version = "{version}"
description = "A night in a room of the guest house."
output = {{ reservation_id = "=stay.reservation_id", version = "{version}" }}

[[recipe.step]]
method = "BOOK"
path = "/room"
input = {{ room = "=input.room", arrival = "=input.arrival", departure = "=input.departure" }}
capture = "stay"

[recipe.endpoint]
method = "RESERVE"
path = "/stay"
description = "Reserves a stay in the guest house."

[recipe.endpoint.semantic]
intent = "Reserve a stay for the given nights."
actor = "agent"
outcome = "The room is taken."
capability = "transaction"
confidence = 0.9
impact = "irreversible"
is_idempotent = false

[recipe.endpoint.input_schema]
type = "object"
additionalProperties = false
required = ["room", "arrival", "departure"]
properties = {{ room = {{ type = "string" }}, arrival = {{ type = "string" }}, departure = {{ type = "string" }} }}

[recipe.endpoint.output_schema]
type = "object"
additionalProperties = false
required = ["reservation_id"]
properties = {{ reservation_id = {{ type = "string" }}, version = {{ type = "string" }} }}
"""

STAY = {
    "method": "RESERVE",
    "path": "/stay",
    "semantic": {
        "intent": "Reserve a stay for the given nights.",
        "actor": "agent",
        "outcome": "The room is taken.",
        "capability": "transaction",
        "confidence": 0.9,
        "impact": "irreversible",
        "is_idempotent": False,
    },
}


def nights(day: int, room: str = "garden") -> dict[str, str]:
    return {"room": room, "arrival": f"2027-01-{day:02}", "departure": f"2027-01-{day + 1:02}"}


@dataclass
class Story:
    """The deployment, and what earlier tests learned."""

    config: Path
    host: Host | None = None
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> Host:
        assert self.host is not None
        return self.host

    def recipe(self, version: str) -> None:
        sample_recipes = (ETC / "recipes.toml").read_text()
        (self.config.parent / "recipes.toml").write_text(sample_recipes + RECIPE.format(version=version))

    def client(self, name: str) -> Client:
        folder = self.running.state / "agents" / name
        return Client(trust=self.running.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key")

    def call(self, name: str, *given: Any, **options: Any) -> Any:
        with self.client(name) as client:
            return client.call(self.running.uri, *given, **options)

    def restart(self) -> None:
        if self.host is not None:
            self.host.stop()
        self.host = Host(self.config).wait()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("negotiation")
    config = sample(
        directory,
        append=POLICIES,
    )
    found = Story(config)
    found.recipe("3")
    with running(config):
        pass
    for name, scopes in (
        ("buyer", ("booking:room", "rcns:negotiate")),
        ("rival", ("booking:room", "rcns:negotiate")),
        ("warden", ("inspect:all",)),
        ("builder", ("booking:room", "rcns:persist")),
    ):
        words = [word for scope in scopes for word in ("--scope", scope)]
        done = agtp("agent", "new", name, *words, cwd=config.parent)
        assert done.returncode == 0, done.stdout + done.stderr
    try:
        found.restart()
        yield found
    finally:
        if found.host is not None:
            found.host.stop()


def test_an_agent_obtains_an_endpoint_that_nobody_wrote(story: Story) -> None:
    """AGTP-API section 10.3: PROPOSE, 263, and a call of the new endpoint over the same connection."""
    with story.client("buyer") as client:
        refused = client.call(story.running.uri, "RESERVE", "/stay", nights(1))
        assert refused.status == 404
        approved = client.call(story.running.uri, "PROPOSE", "/", {"endpoint": STAY, "requested_duration": "P1D"})
        body = approved.json()
        assert approved.status == 263, body
        synthesis_id = body["synthesis_id"]
        presented = [("Contract-Synthesized", synthesis_id)]
        answer = client.call(story.running.uri, "RESERVE", "/stay", nights(1), headers=presented)
        assert answer.status == 200, answer.json()
        assert answer.result["version"] == "3"
        story.known["proposed"] = synthesis_id


def test_the_gate_offers_a_contract_and_honours_it(story: Story) -> None:
    """AGTP-API section 10.1: 461 first, then the call; the record carries the contract's fields."""
    with story.client("rival") as client:
        offer = client.call(story.running.uri, "RESERVE", "/stay", nights(3), headers=[("Allow-RCNS", "true")])
        assert offer.status == 461, offer.json()
        synthesis_id = offer.json()["synthesis_id"]
        answer = client.call(
            story.running.uri, "RESERVE", "/stay", nights(3), headers=[("Contract-Synthesized", synthesis_id)]
        )
        assert answer.status == 200, answer.json()
        record = client.call(story.running.uri, "INSPECT", "/", {"target": "audit", "audit_id": answer.audit_id})
        payload = record.result["payload"]
        assert payload["synthesis_id"] == synthesis_id and payload["negotiation_origin"] == "rcns-gate"
        assert payload["contract_hash"] == offer.json()["contract_hash"]
        story.known["offered"] = synthesis_id


def test_the_other_agent_cannot_use_it(story: Story) -> None:
    """API-105: 464 contract-not-yours, with an attempt that it can look at."""
    stolen = story.call(
        "buyer", "RESERVE", "/stay", nights(5), headers=[("Contract-Synthesized", story.known["offered"])]
    )
    assert (stolen.status, stolen.json()["reason"]) == (464, "contract-not-yours")
    attempt = story.call(
        "buyer", "INSPECT", "/", {"target": "rcns-attempt", "attempt_id": stolen.headers.get("rcns-attempt-id")}
    )
    assert attempt.result["reason"] == "contract-not-yours"


def test_an_edit_and_a_restart_change_no_contract(story: Story) -> None:
    """API-116, API-117: the captured version goes on; a new proposal gets the new one; both are listed."""
    story.recipe("4")
    story.restart()
    day = 7
    for name, key in (("buyer", "proposed"), ("rival", "offered")):
        answer = story.call(name, "RESERVE", "/stay", nights(day), headers=[("Contract-Synthesized", story.known[key])])
        assert answer.status == 200 and answer.result["version"] == "3", answer.json()
        day += 2
    approved = story.call("buyer", "PROPOSE", "/", {"endpoint": STAY, "requested_duration": "1h"})
    assert approved.json()["recipe_lineage"]["recipe_version"] == "4"
    listed = story.running.agtp_json("contracts", "ls", "--as", "buyer")
    assert sorted(entry["recipe_lineage"]["recipe_version"] for entry in listed) == ["3", "4"]


def test_the_operator_sweeps(story: Story) -> None:
    """API-106, API-107: reported first, evicted then; the stream of the agent has the signed event."""
    refused = story.running.agtp("contracts", "sweep", "--as", "buyer")
    assert refused.returncode == 1
    report = story.running.agtp_json("contracts", "sweep", "--as", "warden", "--mode", "grandfather")
    assert (report["grandfathered"], report["unchanged"], report["evicted"]) == (2, 1, 0)
    report = story.running.agtp_json("contracts", "sweep", "--as", "warden", "--mode", "invalidate", "--actor", "ops")
    assert report["evicted"] == 2
    gone = story.call(
        "rival", "RESERVE", "/stay", nights(11), headers=[("Contract-Synthesized", story.known["offered"])]
    )
    assert gone.status == 404
    rival = json.loads((story.running.state / "agents/rival/document.json").read_text())["agent_id"]
    stream = story.call("warden", "INSPECT", "/", {"target": "lifecycle", "agent_id": rival}).result["events"]
    swept = [event["payload"] for event in stream if event["payload"]["event_type"] == "rcns_release"]
    assert [payload["reason"] for payload in swept] == ["policy-change-invalidation"]


def test_a_revoked_contract_stays_revoked(story: Story) -> None:
    """API-105: ``agtp contracts revoke``, and 464 over a restart."""
    (left,) = story.running.agtp_json("contracts", "ls", "--as", "warden")
    done = story.running.agtp("contracts", "revoke", left["synthesis_id"], "--as", "warden", "--reason", "over")
    assert done.returncode == 0, done.stdout + done.stderr
    story.restart()
    answer = story.call(
        "buyer", "RESERVE", "/stay", nights(13), headers=[("Contract-Synthesized", left["synthesis_id"])]
    )
    assert (answer.status, answer.json()["reason"]) == (464, "contract-revoked")
    assert story.running.agtp("audit", "verify").returncode == 0


def test_propose_as_a_command(story: Story, tmp_path: Path) -> None:
    """``agtp propose FILE`` prints the contract; three files that are rejected end with ESCALATE."""
    file = tmp_path / "stay.json"
    file.write_text(json.dumps(STAY))
    answer = story.running.agtp_json("propose", str(file), "--as", "buyer", "--duration", "1h")
    assert answer["synthesis_id"] and answer["lifetime"] == "agent"
    hopeless = tmp_path / "boat.json"
    hopeless.write_text(json.dumps({**STAY, "path": "/boat"}))
    done = story.running.agtp("propose", *[str(hopeless)] * 4, "--as", "buyer", "--json")
    assert done.returncode == 1
    outcome = json.loads(done.stdout)
    assert [turn["status"] for turn in outcome["turns"]] == [463, 463, 463]
    assert outcome["escalation"]["status"] is not None


def test_a_persistent_endpoint_is_in_the_manifest(story: Story) -> None:
    """AGTP-261, AGTP-267, API-121: published for everybody, and AGTP-API-Version moves; it survives the connection."""
    with Client(trust=story.running.state / "ca.pem") as client:
        before = client.call(story.running.uri, "DISCOVER", "/")
        assert before.json()["data_manifest"]["negotiable"] is True
        approved = story.call("builder", "PROPOSE", "/", {"endpoint": STAY, "persistent": True, "data_class": "stays"})
        assert approved.json()["persistent"] is True, approved.json()
        after = client.call(story.running.uri, "DISCOVER", "/")
    (found,) = [entry for entry in after.json()["endpoints"] if entry["path"] == "/stay"]
    assert found["proposed"] is True and found["tier"] == "C"
    assert not [entry for entry in after.json()["endpoints"] if entry["tier"] == "B" and "proposed" in entry]
    versions = [int(reply.headers.get("agtp-api-version") or 0) for reply in (before, after)]
    assert versions[1] > versions[0]
    assert story.call("builder", "RESERVE", "/stay", nights(20, "attic")).status == 200
    # A restart changes nothing that can be called, and so not the version.
    story.restart()
    again = story.call("builder", "DISCOVER", "/agents")
    assert int(again.headers.get("agtp-api-version") or 0) == versions[1]
    assert story.call("builder", "RESERVE", "/stay", nights(22, "attic")).status == 200


def test_sensitive_data_needs_credentials(story: Story) -> None:
    """AGTP-067, AGTP-263: the same proposal without a certificate is 262 credentials-missing with a Negotiation-ID."""
    with Client(trust=story.running.state / "ca.pem") as client:
        answer = client.call(story.running.uri, "PROPOSE", "/", {"endpoint": STAY, "data_class": "stays"})
    assert (answer.status, answer.json()["type"]) == (262, "credentials-missing")
    assert answer.headers.get("negotiation-id")


def test_a_contract_is_released_by_its_agent_alone(story: Story) -> None:
    """AGTP-225, AGTP-175: SUSPEND synthesis_id; 403 for others, 404 afterwards, and the reason is in the stream."""
    approved = story.call("builder", "PROPOSE", "/", {"endpoint": STAY, "requested_duration": "1h"})
    given = {"synthesis_id": approved.json()["synthesis_id"], "reason": "do not need any more"}
    assert story.call("buyer", "SUSPEND", "/", given).status == 403
    released = story.call("builder", "SUSPEND", "/", given)
    assert released.status == 200, released.json()
    presented = [("Contract-Synthesized", given["synthesis_id"])]
    assert story.call("builder", "RESERVE", "/stay", nights(24), headers=presented).status == 404
    builder = json.loads((story.running.state / "agents/builder/document.json").read_text())["agent_id"]
    stream = story.call("warden", "INSPECT", "/", {"target": "lifecycle", "agent_id": builder}).result["events"]
    mine = [event["payload"] for event in stream if event["payload"].get("synthesis_id") == given["synthesis_id"]]
    assert [payload["event_type"] for payload in mine] == ["rcns_release", "rcns_propose_accepted"]
    assert mine[0]["reason"] == "do not need any more"
    assert (mine[1]["contract_method"], mine[1]["contract_path"]) == ("RESERVE", "/stay")
    assert mine[1]["recipe_lineage"] == {"recipe_name": "guest-stay", "recipe_version": "4"}


@pytest.mark.parametrize("ends", ["close", "kill"])
def test_a_contract_ends_with_its_connection(story: Story, ends: str) -> None:
    """AGTP-266, API-052: in no list afterwards, and its agent's stream tells; also after a kill."""

    def listed() -> list[str]:
        return [entry["synthesis_id"] for entry in story.call("buyer", "DISCOVER", "/contracts").json()]

    def told_of(synthesis_id: str) -> bool:
        asked = {"target": "lifecycle", "agent_id": caller}
        events = story.call("warden", "INSPECT", "/", asked).result["events"]
        return any(
            event["payload"]["event_type"] == "rcns_release" and event["payload"]["synthesis_id"] == synthesis_id
            for event in events
        )

    with story.client("buyer") as client:
        body = client.call(story.running.uri, "PROPOSE", "/", {"endpoint": STAY}).json()
        assert body["lifetime"] == "connection", body
        synthesis_id = body["synthesis_id"]
        [caller] = {
            entry["originating_agent_id"] for entry in client.call(story.running.uri, "DISCOVER", "/contracts").json()
        }
        assert synthesis_id in listed()
        if ends == "kill":
            story.running.kill()
    if ends == "kill":
        story.restart()
    until(lambda: synthesis_id not in listed())
    until(lambda: told_of(synthesis_id))
