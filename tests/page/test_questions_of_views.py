"""A view is one record for all that it reads by INSPECT; an agent's last call is shown however long ago it was."""

from __future__ import annotations

import re

import pytest

from agtphost.audit.observed_records import members_of
from agtphost.page.access_choices import Choices
from agtphost.page.views import VIEWS
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


@pytest.mark.parametrize("path", [*VIEWS, "/calls/x", "/agents/x", "/tools/x"])
def test_a_member_of_an_address_that_no_view_reads_is_named(page: PageInMemory, path: str) -> None:
    """A misspelt filter in a link showed everything, without a word."""
    _, body = page.get(path, {"sttaus": "4xx", "refresh": "1", "empty": ""})
    said = re.search(r"This view does not know ([^<]*)", body)
    assert said is not None and said[1].startswith("sttaus=4xx of the address"), body[:2_000]
    if path == "/calls":
        assert "Did you mean status?" in said[1]
    _, body = page.get(path, {"refresh": "1", "empty": ""})
    assert "This view does not know" not in body
    _, body = page.get(path, {f"{number}\u202e<b>": "x" for number in range(9)})
    assert "and 4 more of the address" in body and "\u202e" not in body and "<b>" not in body


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/calls", "before=abc"),
        ("/calls", "before=0"),
        ("/calls", f"before={2**64}"),
        ("/inbox", "show=dcided"),
        ("/config", "compare=ys"),
        ("/agents", "range=-1x"),
        ("/tools", "range=24h"),
        ("/can", "assurance=certificat"),
        ("/can", "what=files.read_file"),
    ],
)
def test_a_value_of_an_address_that_no_view_has_is_named(page: PageInMemory, path: str, wrong: str) -> None:
    """The view shows its default; without a word it would look like what was asked for."""
    status, body = page.get(f"{path}?{wrong}")
    assert status == 200 and f"This view does not know {wrong} of the address" in body


@pytest.mark.parametrize(
    ("path", "name", "longest"),
    [("/", "from", 64), ("/calls", "until", 64), ("/calls", "tool", 2_100), ("/tools", "name", 256)],
)
def test_a_value_of_an_address_that_is_cut_is_named(page: PageInMemory, path: str, name: str, longest: int) -> None:
    """What followed 300 spaces was dropped without a word, and the view showed the hour before the spaces."""
    _, body = page.get(path, {name: f"-1h{' ' * longest}x"})
    assert f"uses only a part of them: {name} (the first {longest} characters)." in body, body[:2_000]
    _, body = page.get(path, {name: f" -1h{' ' * longest}"})
    assert "only a part of them" not in body


def test_a_member_of_an_address_is_given_once(page: PageInMemory) -> None:
    """Of two values of one filter the last counted, as if the other had not been asked for."""
    status, body = page.get("/calls?status=4xx&status=2xx")
    assert status == 400 and "one of them twice" in body


def test_a_question_that_is_refused_stands_alone(page: PageInMemory) -> None:
    """A range that cannot be read is explained at its field, and the other answers of the same request are shown."""
    status, body = page.get("/", {"from": "yesterday"})
    assert status == 422 and "is not a time" in body and "calls wait" in body and "New today" in body


@pytest.mark.parametrize(
    ("tool", "lacking"), [("files.raed", True), ("files.read", False), ("other.read", False), ("", False)]
)
def test_a_tool_that_its_server_does_not_list_can_be_told_from_a_forbidden_one(tool: str, lacking: bool) -> None:
    """A limited agent's refusal is the same for both; a server that lists nothing may be down."""
    choices = Choices(
        options=[("", "by method and path"), ("tool files.read", "Tool files.read")], methods=(), paths=()
    )
    assert choices.lacks_tool(tool) == lacking
