"""Overview and Calls without a browser: ranges, filters, what is hidden, and the steps of one call."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from twisted.web.template import flattenString

from agtphost.audit.drafts import HOST_CHAIN, Draft, StreamEvent
from agtphost.audit.observed_records import ObservedRecord
from agtphost.page.call_list import draw_caller, records
from agtphost.page.call_steps import CallSources, draw_steps
from agtphost.page.live_feed import line_of
from agtphost.page.person_client import PageReply
from agtphost.testing.connection import Answer
from tests.page.browsing import Page
from tests.page.page_in_memory import PageInMemory


@pytest.fixture(scope="module")
def page() -> PageInMemory:
    made = PageInMemory()
    demo = made.host.agent("demo")
    made.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    made.open()
    for number in range(3):
        made.host.call("QUERY", "/orders", caller=demo)
        made.host.call("QUERY", f"/nothing-{number}", caller=demo)
    return made


def shown(page: PageInMemory, path: str, /, **query: str) -> Page:
    status, body = page.get(path, query)
    assert status == 200, body
    return Page(body)


def rows_of(view: Page) -> list[dict[str, str]]:
    return [given for tag, given in view.tags if tag == "tr" and "data-record" in given]


def test_a_bad_filter_is_explained_at_its_field(page: PageInMemory) -> None:
    """With the message of the parser, and what was typed is still there."""
    for query, part in (
        ({"filter": "sttus:4xx"}, "Did you mean status?"),
        ({"filter": "from:-1h", "from": "-2h"}, "from is given twice"),
        ({"from": "2026-11-27T10:00"}, "has no time zone"),
        ({"from": "-1h", "until": "-2h"}, "is not after from"),
        ({"filter": "agent:nobody"}, "is not the name of an agent here"),
        ({"filter": "agent:dmeo"}, "Did you mean demo?"),
        ({"caller_id": "dmeo"}, "Did you mean demo?"),
        ({"status": "9999"}, "is not valid"),
        ({"until": "9999-12-31T23:59:59-23:59"}, "is not a time"),
    ):
        status, body = page.get("/calls", query)
        view = Page(body)
        (field,) = [given for tag, given in view.tags if given.get("id") == "filter-filter"]
        assert status == 422 and part in body, query
        assert field["aria-invalid"] == "true" and field["aria-describedby"] == "filter-error" in view.ids
        assert field["value"] == query.get("filter", "")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"filter": "status=4xx"}, "Status=4xx is looked for as a text: write status:4xx."),
        ({"reason": "scope-requird"}, "Did you mean the reason scope-required?"),
        ({"filter": "tool:read_file"}, "Most tools are named SERVER.TOOL"),
        ({"filter": "operator:ana reads:all"}, "Did you mean the operator anna?"),
        ({"operator": "ana"}, "Did you mean the operator anna?"),
        ({"method": "QUREY"}, "Did you mean the method QUERY?"),
    ],
)
def test_a_filter_that_finds_nothing_says_what_may_be_wrong(
    page: PageInMemory, query: dict[str, str], said: str
) -> None:
    """As the command does; no call matches, and the filter is right as a filter."""
    status, body = page.get("/calls", query)
    assert status == 200 and any(said in text for text in Page(body).said), query


def test_every_field_of_the_language_can_stand_in_an_address(page: PageInMemory) -> None:
    """As its terms can stand in the text, where they are shown; a field that no input has is not passed over."""
    for query, text in (
        ({"agent": "demo", "endpoint": "QUERY /orders"}, 'agent:demo endpoint:"QUERY /orders"'),
        ({"filter": "agent:demo", "tool": "files.x"}, "agent:demo tool:files.x"),
        ({"caller": "demo", "reads": "none"}, "caller:demo reads:none"),
    ):
        by_field, by_text = shown(page, "/calls", **query), shown(page, "/calls", filter=text)
        (field,) = [given for tag, given in by_field.tags if given.get("id") == "filter-filter"]
        assert field["value"] == text
        assert rows_of(by_field) == rows_of(by_text)
    for query, part in (
        ({"agent": "nobody"}, "is not the name of an agent here"),
        ({"reads": "some"}, "Write all or none."),
        ({"session": "\u0448"}, "is not valid"),
    ):
        status, body = page.get("/calls", query)
        assert status == 422 and part in body, query
    status, body = page.get("/", {"from": "yesterday"})
    assert status == 422 and "is not a time" in body and 'id="range-error"' in body


def test_reads_of_operators_are_hidden_by_default(page: PageInMemory) -> None:
    """A switch shows them, and so does a filter that names what they are."""
    assert len(rows_of(shown(page, "/calls"))) == 6
    view = shown(page, "/calls", filter="agent:demo")
    assert len(rows_of(view)) == 6 and "Show them" in view.said
    assert len(rows_of(shown(page, "/calls", reads="all"))) > 6
    changes = shown(page, "/calls", filter="operator:anna")
    assert not rows_of(changes) and "Show them" in changes.said, "what an operator changed is not among its reads"
    everything = {"filter": "operator:anna", "reads": "all"}
    for query in (everything, {"method": "INSPECT"}, {"filter": "reads:all"}, {"path": "/page"}):
        assert rows_of(shown(page, "/calls", **query)), query


def test_refusals_are_marked_in_text_too(page: PageInMemory) -> None:
    """The row has a class, and its status the word."""
    view = shown(page, "/calls", filter="agent:demo")
    assert [given.get("class", "") for given in rows_of(view)] == ["refused", ""] * 3
    assert view.said.count("refused") == 3


def test_a_held_call_is_not_refused() -> None:
    """202 with a reason waits for a person: the list, the feed and the steps have another word, and no red."""
    record = {"method": "EXECUTE", "path": "/", "status": 202, "reason": "approval-required", "audit_id": "a" * 64}
    found = PageReply(status=200, result={"records": [record]}, document={}, audit_id="")
    listed = flattenString(None, records("Calls", found)).result.decode()
    assert "202" in listed and "held" in listed and "refused" not in listed
    assert "kind" not in line_of(ObservedRecord("a" * 64, "", "", members=record))
    sources = CallSources(None, None, None, None, found)
    steps = flattenString(None, draw_steps(record, sources)).result.decode()
    assert "held" in steps and "refused" not in steps


def test_an_event_with_a_reason_is_not_refused() -> None:
    """The reason for which an agent was suspended is no refusal: neither the list nor the feed marks it as one."""
    record = {"event_type": "agent-lifecycle-suspended", "status": 200, "reason": "lunch", "audit_id": "a" * 64}
    found = PageReply(status=200, result={"records": [record]}, document={}, audit_id="")
    listed = flattenString(None, records("Calls", found)).result.decode()
    assert "lunch" in listed and "refused" not in listed
    assert "kind" not in line_of(ObservedRecord("a" * 64, "", "", members=record))


def test_links_keep_the_filter_and_replace_its_times(page: PageInMemory) -> None:
    """A range of a link would otherwise contradict the one in the text."""
    view = shown(page, "/calls", filter="agent:demo from:-2h", reads="all")
    assert "/calls?reads=all&filter=agent%3Ademo&from=-15m" in view.links
    slots = [given for tag, given in view.tags if tag == "tr" and "data-from" in given]
    # As times: a text with a fraction of a second is before one without.
    assert slots and all(
        datetime.fromisoformat(given["data-from"]) < datetime.fromisoformat(given["data-until"]) for given in slots
    )


def test_the_overview_sums_up(page: PageInMemory) -> None:
    """Calls and refusals by tool and agent, what is new, and as of when."""
    view = shown(page, "/", **{"from": "-15m"})
    text = " ".join(view.said)
    assert "6 calls, 3 refused" in text and re.search(r"as of \d\d:\d\d:\d\d UTC", text)
    assert "QUERY by demo : not-found" in text and "Agent demo" in text
    at = view.said.index("QUERY")
    assert view.said[at + 1 : at + 3] == ["6", "3"], "calls and refusals of QUERY"


def test_every_link_of_the_overview_leads_to_calls(page: PageInMemory) -> None:
    """Requests with a method that the host does not have are counted; no filter has a name for them."""
    page.host.call("FROBNICATE", "/nothing", caller=page.host.agent("another"))
    view = shown(page, "/", **{"from": "-15m"})
    assert "unknown methods" in view.said
    for link in {each for each in view.links if each.startswith("/calls?")}:
        assert page.get(link)[0] == 200, link


def test_a_call_is_a_timeline(page: PageInMemory) -> None:
    """The time of each step is that of a record or was measured; the gates are one line that opens."""
    answer: Answer = page.host.call("QUERY", "/nothing", caller=page.host.agent("other"))
    audit_id = str(answer.headers.get("audit-id"))
    view = shown(page, f"/calls/{audit_id}")
    text = " ".join(view.said)
    assert "Received from" in text and "refused" in text and "Answered and recorded: 404" in text
    assert "ms in all" in text and "was measured by this process" in text
    page.made.latencies._durations.clear()
    text = " ".join(shown(page, f"/calls/{audit_id}").said)
    assert "ms in all" not in text and "The duration of this call is not known" in text


def test_a_refreshing_view_is_no_click(page: PageInMemory) -> None:
    """A session that nobody uses ends, although its view asks for itself again, and looks whether the host is there."""
    other = PageInMemory({"admin": {"listen": "ssl:4481:interface=127.0.0.1", "idle": 60}})
    other.open()
    for _ in range(3):
        other.host.advance(25.0)
        assert other.get("/static/icon.svg")[0] == 200
    assert other.get("/")[0] == 401
    other.open()
    for _ in range(3):
        other.host.advance(25.0)
        status, _body = other.get("/", {"refresh": "1"})
    assert status == 401
    other.open()
    for _ in range(3):
        other.host.advance(25.0)
        status, _body = other.get("/", {"from": "-1h"})
    assert status == 200


def test_an_event_is_no_call() -> None:
    """It is listed as what it is, and no table of calls counts it: no stranger called, and no gate was passed."""
    made = PageInMemory()
    made.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    made.open()
    made.host.call("QUERY", "/orders", caller=made.host.agent("demo"))
    ledger = made.host.core.services.evidence.ledger
    event = StreamEvent(chain=HOST_CHAIN, event_type="door-opened")
    sealed = ledger.submit(Draft(chain=HOST_CHAIN, payload={}, events=(event,)))
    made.host.advance(1.0)
    view = shown(made, "/", **{"from": "-15m"})
    overview, slots = view.said, sum(tag == "tr" and "data-from" in given for tag, given in view.tags)
    chart = overview[overview.index("Refused") + 1 :][: 3 * slots]
    assert sum(map(int, chart[1::3])) == 1, "the chart counts calls alone"
    assert "1 call, 0 refused" in overview and "unnamed" not in overview
    assert "(event)" not in overview, "the tables by tool and by agent count calls"
    listed = shown(made, "/calls").said
    at = listed.index("door-opened")
    assert listed[at : at + 3] == ["door-opened", "-", "host"]
    view = " ".join(shown(made, f"/calls/{sealed.result.audit_id}").said)
    assert "Recorded: door-opened" in view and "Received from" not in view and "Gates" not in view


def test_no_preset_is_current_where_the_filter_has_times(page: PageInMemory) -> None:
    """The word All would deny the times in the text of the filter."""

    def current(**query: str) -> list[str]:
        view = shown(page, "/calls", **query)
        return [given["href"] for tag, given in view.tags if tag == "a" and given.get("aria-current") == "true"]

    assert current() == ["/calls"] and current(**{"from": "-1h"}) == ["/calls?from=-1h"]
    assert current(filter="from:-1h") == []


def test_a_caller_that_was_only_named_is_unproven() -> None:
    """The lists, the view of one call and the feed say so; latencies do not count such calls as the agent's."""
    made = PageInMemory()
    demo = made.host.agent("demo")
    made.host.endpoint("QUERY", "/orders", lambda context: {"orders": []})
    made.open()
    made.host.call("QUERY", "/orders", caller=demo)
    refused = made.host.call("QUERY", "/orders", headers={"Agent-ID": demo.agent_id})
    assert refused.status == 401, refused
    audit_id = refused.reply.audit_id
    for path in ("/calls", f"/agents/{demo.agent_id}", f"/calls/{audit_id}"):
        _, body = made.get(path)
        # The view of one call has it in its summary and in its first step.
        assert body.count("demo</a> (unproven)") == (2 if audit_id in path else 1), (path, body)
    counted = re.findall(r"<dt>(Calls|Refused|Failed)</dt><dd>(.*?)</dd>", made.get(f"/agents/{demo.agent_id}")[1])
    assert counted == [("Calls", "1"), ("Refused", "0"), ("Failed", "0")]


def test_a_list_names_the_person_for_whom_an_agent_called() -> None:
    """The name is next to the agent's, and marks that reorder text are written out."""
    record = {
        "caller_id": "a" * 64,
        "acting_principal_id": "anna\u202e@example.com",
        "identity_assurance": "certificate",
    }
    shown = flattenString(None, draw_caller(record, "desk")).result.decode()
    assert "desk</a>" in shown and " for anna\\u202e@example.com" in shown
