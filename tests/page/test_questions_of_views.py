"""A view is one record for all that it reads by INSPECT; an agent's last call is shown however long ago it was."""

from __future__ import annotations

import re

import pytest

from agtphost.audit.observed_records import members_of
from tests.page.browsing import Page
from tests.page.page_in_memory import PageInMemory

FEW = {"/": 5, "/calls": 2, "/agents": 4, "/tools": 2, "/evidence": 3}
"""Records of each view at most: one of QUERY /page, one or two of INSPECT, and one of each list that is no INSPECT."""


@pytest.fixture(scope="module")
def page() -> PageInMemory:
    made = PageInMemory()
    demo, other = made.host.agent("demo"), made.host.agent("other")
    made.host.agent("idle")
    made.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    made.open()
    made.host.call("QUERY", "/orders", caller=demo)
    for _ in range(210):
        made.host.call("QUERY", "/orders", caller=other)
    return made


@pytest.mark.parametrize("path", FEW)
def test_a_view_writes_few_records(page: PageInMemory, path: str) -> None:
    """An open Overview asks again every 20 seconds; it wrote ten records each time."""
    page.host.advance(1)
    before = len(page.host.records())
    status, body = page.get(path)
    assert status == 200, body[:500]
    page.host.advance(1)
    made = page.host.records()[before:]
    said = [members_of(each.signed.decode()) for each in made]
    inspections = [each for each in said if each["method"] == "INSPECT"]
    assert 1 <= len(inspections) <= 2 and len(made) <= FEW[path], [(each["method"], each["path"]) for each in said]
    assert {each["operator"]["name"] for each in said} == {"anna"}


def test_an_agents_last_call_is_shown_after_many_others(page: PageInMemory) -> None:
    """More calls of others than one list has do not hide it; an agent that never called has none."""
    status, body = page.get("/agents")
    assert status == 200
    rows = {}
    for row in re.findall(r"<tr><th.*?</tr>", body, re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        rows[" ".join(Page(cells[0]).said)] = [" ".join(Page(cell).said) for cell in cells]
    place = rows["Name"].index("Last call")
    for name in ("demo", "other"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d\s+\d\d:\d\d:\d\d UTC", rows[name][place]), rows[name]
    assert rows["idle"][place] == "-"


def test_a_question_that_is_refused_stands_alone(page: PageInMemory) -> None:
    """A range that cannot be read is explained at its field, and the other answers of the same request are shown."""
    status, body = page.get("/", {"from": "yesterday"})
    assert status == 422 and "is not a time" in body and "calls wait" in body and "New today" in body
