"""The operator's inbox: shares by the sender's owner, and places that nobody else's noise takes."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.methods.oversight import escalation, inbox_shares
from agtphost.methods.oversight.inbox_shares import CRITICAL_OF_AN_OWNER, OF_A_HOST, ORDINARY_OF_AN_OWNER
from tests.methods.floor_hosts import CALLER, JUDGE, OPERATOR, OTHER, FloorHost, body_of


def tell(host: FloorHost, by: Any = CALLER, **more: Any) -> tuple[int, str]:
    answer = host.ask("NOTIFY", by=by, recipient="operator", content="x", **more)
    return int(answer.status), str(body_of(answer).get("reason", ""))


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three agents: two of one owner, one of another; all their certificates name one."""
    whose = {CALLER.agent_id: "noisy.tld", JUDGE.agent_id: "noisy.tld", OTHER.agent_id: "quiet.tld"}
    monkeypatch.setattr(inbox_shares, "share_of", lambda sender: whose[sender.agent_id])


def test_an_owner_is_who_the_documents_name() -> None:
    """Not the agent: agents are cheap."""
    assert inbox_shares.share_of(CALLER) == CALLER.owner_id == "acme.tld"


def test_one_owner_has_its_share_and_others_are_heard(owners: None) -> None:
    """The agents of one owner share; at the share its own refusal, and another owner's message still arrives."""
    host = FloorHost()
    for _ in range(ORDINARY_OF_AN_OWNER):
        assert tell(host)[0] == 202
    assert tell(host) == tell(host, JUDGE) == (429, "owner-share-used")
    assert tell(host, OTHER)[0] == 202
    assert tell(host, urgency="critical")[0] == 202, "what is critical has places of its own"


def test_critical_ones_have_a_share_too(owners: None) -> None:
    """Calling everything critical fills an owner's critical places, and no one else's."""
    host = FloorHost()
    for _ in range(CRITICAL_OF_AN_OWNER):
        assert tell(host, urgency="critical")[0] == 202
    assert tell(host, JUDGE, urgency="critical") == (429, "owner-share-used")
    assert tell(host, OTHER, urgency="critical")[0] == 202


def test_a_full_inbox_takes_critical_ones_and_other_hosts(owners: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever many owners send, the places of critical messages and of the named hosts are not theirs."""
    monkeypatch.setattr(inbox_shares, "ORDINARY", 2)
    monkeypatch.setattr(inbox_shares, "CRITICAL", 1)
    host = FloorHost({"lifecycle": {"hosts": [OTHER.agent_id]}})
    assert [tell(host)[0] for _ in range(3)] == [202, 202, 429]
    assert [tell(host, urgency="critical")[0] for _ in range(2)] == [202, 429]
    assert [tell(host, OTHER, urgency="critical")[0] for _ in range(OF_A_HOST)] == [202] * OF_A_HOST
    assert tell(host, OTHER, urgency="critical") == (429, "owner-share-used")
    read = host.result("QUERY", "/notifications", by=OPERATOR, limit=5)["notifications"]
    assert {item["urgency"] for item in read} == {"critical"} and "places" not in read[0]


def test_a_name_that_is_only_said_has_no_places_of_a_host(owners: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places of a host take its certificate."""
    monkeypatch.setattr(inbox_shares, "ORDINARY", 0)
    monkeypatch.setattr(inbox_shares, "CRITICAL", 0)
    host = FloorHost({"lifecycle": {"hosts": [OTHER.agent_id]}})
    answer = host.ask("NOTIFY", by=OTHER, certain=False, recipient="operator", content="x", urgency="critical")
    assert int(answer.status) in (401, 429)
    assert tell(host, OTHER, urgency="critical")[0] == 202


def test_reading_gives_the_place_back(owners: None) -> None:
    """A confirmed message takes no place."""
    host = FloorHost()
    receipts = [host.result("NOTIFY", code=202, recipient="operator", content="x") for _ in range(ORDINARY_OF_AN_OWNER)]
    assert tell(host)[0] == 429
    host.result("CONFIRM", target_id=receipts[0]["notification_id"], status="accepted", by=OPERATOR)
    assert tell(host)[0] == 202


def test_escalations_of_one_owner_are_shared(owners: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All agents of an owner together; what is urgent has a reserve, others have theirs, and none is dropped."""
    monkeypatch.setattr(escalation, "OPEN_PER_OWNER", 2)
    monkeypatch.setattr(escalation, "URGENT_PER_OWNER", 1)
    host = FloorHost()

    def escalate(number: int, by: Any = CALLER, priority: str = "normal") -> int:
        answer = host.ask("ESCALATE", by=by, task_id=f"T-{number}", reason="scope_limit", context={}, priority=priority)
        return int(answer.status)

    assert [escalate(1), escalate(2, JUDGE), escalate(3), escalate(4, JUDGE)] == [202, 202, 429, 429]
    assert [escalate(5, priority="urgent"), escalate(6, priority="urgent")] == [202, 429]
    assert escalate(7, OTHER) == 202
    assert host.held.count("escalation") == 4
