"""Two agents of one name can be told apart wherever the page shows a name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agtphost.audit.observed_records import ObservedGroup
from agtphost.identity.directory import AgentDirectory
from agtphost.page.live_feed import line_of
from agtphost.testing.identities import TestAgent
from tests.page.browsing import Page
from tests.page.page_in_memory import PageInMemory


class Twins(PageInMemory):
    """A page of a host with two agents of the same name, and one with a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.single = (self.host.agent(name) for name in ("twin", "other", "single"))
        self.host.directory.replace(replace(self.second.agent, name="twin"))
        self.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
        self.host.endpoint("BOOK", "/room", lambda context: {}, approval="required")
        self.seen: list[Any] = []
        self.open()

    def open(self) -> None:
        super().open()
        self.host.core.services.evidence.ledger.watch(self._watch)

    def _watch(self, group: ObservedGroup) -> None:
        self.seen += group.records

    def said(self, path: str, query: dict[str, str] | None = None) -> list[str]:
        """Return the texts of a view."""
        status, body = self.get(path, query)
        assert status == 200, body
        return [text.strip("\u2068\u2069") for text in Page(body).said]


def test_the_directory_shows_as_many_digits_as_tell_its_agents_apart() -> None:
    """A third agent with equal first digits was shown as one of the others."""
    one = Twins().first.agent
    ids = ["1a2b3c4d" + "0" * 56, "1a2b3c4d" + "0" * 20 + "f" * 36, "ff" * 32]
    directory = AgentDirectory([replace(one, agent_id=each, hosted=False) for each in ids])
    assert [each.display_name for each in directory.list_known()] == [f"{one.name} ({each[:29]}...)" for each in ids]
    directory.admit([replace(one, agent_id="ee" * 32, name="single", hosted=False)])
    single = directory.by_id("ee" * 32)
    assert single is not None and single.display_name == "single"


def shown(agent: TestAgent) -> str:
    """Return the name of an agent whose name others have."""
    return f"twin ({agent.agent_id[:8]}...)"


@pytest.fixture
def page() -> Twins:
    return Twins()


@pytest.mark.parametrize("path", ["/", "/agents", "/calls"])
def test_agents_of_one_name_are_shown_with_the_beginnings_of_their_ids(page: Twins, path: str) -> None:
    """An operator who stops one of them must not stop the other; an agent with a name of its own is shown by that."""
    for agent in (page.first, page.second, page.single):
        page.host.call("QUERY", "/orders", caller=agent)
    said = page.said(path)
    assert shown(page.first) in said and shown(page.second) in said
    assert "single" in said and "twin" not in said


@pytest.mark.parametrize("path", ["/", "/calls"])
def test_one_of_them_alone_is_told_apart_too(page: Twins, path: str) -> None:
    """The list does not show the other one, but the reader may think of it."""
    page.host.call("QUERY", "/orders", caller=page.first)
    said = page.said(path)
    assert shown(page.first) in said and "twin" not in said


def test_a_line_of_the_feed_tells_them_apart(page: Twins) -> None:
    """Lines of the feed have no link to the agent."""
    page.host.call("QUERY", "/orders", caller=page.second)
    assert [line_of(record)["cells"][2] for record in page.seen] == [shown(page.second)]


def test_what_waits_tells_them_apart(page: Twins) -> None:
    """The inbox and *Waits longest* name the agent that asks."""
    held = page.host.call("BOOK", "/room", caller=page.first)
    assert held.reason == "approval-required", held
    assert any(text.startswith(f"{shown(page.first)} asks for") for text in page.said("/inbox"))
    assert shown(page.first) in page.said("/inbox") and shown(page.first) in page.said("/")


def test_an_answer_of_check_access_names_the_agent(page: Twins) -> None:
    """The name alone leads to a choice between both, by Agent-ID."""
    asked = {"method": "QUERY", "path": "/orders"}
    said = page.said("/can", {**asked, "agent": page.first.agent_id})
    assert shown(page.first) in said and "twin" not in said
    choice = page.said("/can", {**asked, "agent": "twin"})
    assert shown(page.first) in choice and shown(page.second) in choice


def test_the_view_of_an_agent_and_a_trial_name_it(page: Twins) -> None:
    """The heading of the view tells them apart."""
    assert f"Agent {shown(page.second)}" in page.said(f"/agents/{page.second.agent_id}")
