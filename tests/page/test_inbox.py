"""The inbox: what waits is decided by forms, as the person whose certificate entered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests import forking
from tests.page.browsing import Answer, Browser, Form, Site, served
from tests.system.hosting import ETC, until

SERVER = Path(__file__).parents[1] / "system" / "changing_server.py"
TOOLS = "application/vnd.mcp.tools+json"

APPROVED = """
[mcp.server.tools.delete_note]
approval = "required"

[[mcp.server]]
name = "changing"
command = {command}
min_assurance = "header"
"""


@dataclass
class Changing(Site):
    """A host with a server whose tool is as a file says."""

    words: Path

    def execute(self, action: str, payload: dict[str, Any]) -> Any:
        """As the sample agent, with its certificate."""
        demo = self.host.state / "agents" / "demo"
        given = {"action": action, "payload_type": TOOLS, "payload": payload}
        with Client(trust=self.trust, cert=demo / "agent.pem", key=demo / "agent.key") as client:
            return client.call(self.host.uri, "EXECUTE", "/", given)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changing]:
    folder = tmp_path_factory.mktemp("page")
    words = folder / "words"
    words.write_text("Adds up.")
    more = APPROVED.format(command=json.dumps(forking.mcp_server(SERVER, words)))
    more += '\n[policies.synthesis]\napproval = "operator"\n'
    with served(folder, append=more, operators=("registrar", "agents/demo/agent")) as site:
        yield Changing(site.host, site.port, words)


def escalated(site: Site, task: str, question: str = "<b>?</b>") -> str:
    """An agent leaves a decision to people."""
    words = [f"task_id={task}", "reason=ambiguous_instruction", f"context:={json.dumps({'question': question})}"]
    done = site.host.agtp_json("call", "-", "ESCALATE", "/", *words)
    known = done["body"]["result"]["escalation_id"]
    assert isinstance(known, str)
    return known


@pytest.mark.parametrize(("do", "status"), [("accepted", "accepted"), ("rejected", "rejected")])
def test_an_escalation_is_decided(site: Site, do: str, status: str) -> None:
    """By a form with a reason; it is on record who decided, and the card is gone."""
    known = escalated(site, f"task-{do}")
    browser = site.browser()
    shown = browser.get("/inbox")
    assert "&lt;b&gt;" in shown.text and "<b>?" not in shown.text
    after = browser.send(shown.page.form("/do/decide", target_id=known), ("do", do), reason="looked at it")
    assert after.status == 200
    assert f"{known} is {do}" in after.text
    assert known not in [form.fields.get("target_id") for form in after.page.forms]
    (entry,) = site.host.agtp_json("call", "-", "QUERY", "/escalations", f"escalation_id={known}", "--as", "registrar")[
        "body"
    ]["result"]["escalations"]
    assert entry["status"] == status
    assert entry["decision"]["reason"] == "looked at it"
    assert entry["decision"]["by"].startswith("key:")


def test_who_asks_has_its_name_in_the_inbox_and_in_the_overview(site: Site) -> None:
    """An operator decides about an agent, not about the first letters of its Agent-ID."""
    known = escalated(site, "task-named", "whose is it?")
    (entry,) = site.host.agtp_json("call", "-", "QUERY", "/escalations", f"escalation_id={known}", "--as", "registrar")[
        "body"
    ]["result"]["escalations"]
    demo = entry["escalated_by"]
    assert entry["agent_label"] == "demo"
    browser = site.browser()
    shown = browser.get("/inbox").text
    assert f"{demo[:12]}..." not in shown
    assert f'href="/agents/{demo}"' in shown
    assert "demo" in browser.get("/").text.partition("Waits longest")[2].partition("</table>")[0]


def test_two_decisions_in_the_same_instant_are_one(site: Site) -> None:
    """Accept and reject are pressed together in two windows: one counts, and the other says that it came second."""
    for number in range(8):
        known = escalated(site, f"task-together-{number}")
        pages = [site.browser(), site.browser()]
        forms = [each.get("/inbox").page.form("/do/decide", target_id=known) for each in pages]
        answers = decide_together(pages, forms)
        made = [at for at, each in enumerate(answers) if each.status == 200]
        assert len(made) == 1, [each.text for each in answers]
        late = answers[1 - made[0]]
        assert late.status == 409 and "already-decided" in late.text, late.text
        words = ("QUERY", "/escalations", f"escalation_id={known}", "--as", "registrar")
        (entry,) = site.host.agtp_json("call", "-", *words)["body"]["result"]["escalations"]
        assert entry["status"] == DECISIONS[made[0]]


DECISIONS = ("accepted", "rejected")


def decide_together(pages: Sequence[Browser], forms: Sequence[Form]) -> list[Answer]:
    """Press both buttons in two threads that wait for each other; the answers, in the order of the pages."""
    start = threading.Barrier(2)

    def decide(at: int) -> Answer:
        start.wait()
        return pages[at].send(forms[at], ("do", DECISIONS[at]), reason=f"of {at}")

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(decide, range(2)))


def test_what_was_decided_already_is_told(site: Site) -> None:
    """Of two who decide at once the second learns it, and changes nothing."""
    known = escalated(site, "task-twice")
    first, second = site.browser(), site.browser()
    forms = [each.get("/inbox").page.form("/do/decide", target_id=known) for each in (first, second)]
    assert first.send(forms[0], ("do", "accepted")).status == 200
    late = second.send(forms[1], ("do", "rejected"))
    assert late.status == 409
    assert "already-decided" in late.text


def test_a_button_that_is_not_there_does_nothing(site: Site) -> None:
    """A form that was changed is not understood."""
    known = escalated(site, "task-odd")
    browser = site.browser()
    form = browser.get("/inbox").page.form("/do/decide", target_id=known)
    assert browser.send(form, ("do", "erase")).status == 400
    assert browser.get("/inbox").page.form("/do/decide", target_id=known)


def test_a_proposal_is_put_off_and_then_approved(site: Site) -> None:
    """Each by a form; who put it off, and why, stands on the card, and the decision waits on."""
    taken = site.host.agtp("propose", str(ETC / "proposals" / "catalogue.json"), "--duration", "1h", "--json")
    assert "261" in taken.stdout, taken.stdout + taken.stderr
    (waiting,) = site.host.agtp_json("contracts", "proposals", "--as", "registrar")
    known = waiting["proposal_id"]
    browser = site.browser()
    form = browser.get("/inbox").page.form("/do/decide-proposal", proposal_id=known)
    after = browser.send(form, ("do", "deferred"), reason="legal looks at it")
    assert after.status == 200 and f"{known} is deferred" in after.text
    assert "legal looks at it" in after.page.said and any(each.endswith(" ago by admin") for each in after.page.said)
    words = ("--defer", "--reason", "still", "--as", "registrar")
    told = site.host.agtp_json("contracts", "decide", known, *words)
    assert told["decision"] == "deferred" and told["deferred_reason"] == "still"
    assert site.host.agtp("contracts", "decide", known, "--as", "registrar").returncode == 2
    done = browser.send(browser.get("/inbox").page.form("/do/decide-proposal", proposal_id=known), ("do", "accepted"))
    assert done.status == 200 and f"{known} is accepted" in done.text
    assert browser.send(form, ("do", "deferred")).status == 409


def test_an_escalation_is_put_off(site: Site) -> None:
    """It waits on, with the reason on its card."""
    known = escalated(site, "task-later")
    browser = site.browser()
    form = browser.get("/inbox").page.form("/do/decide", target_id=known)
    after = browser.send(form, ("do", "deferred"), reason="after lunch")
    assert after.status == 200 and "after lunch" in after.page.said
    assert any(each.endswith(" ago by admin") for each in after.page.said)
    assert browser.send(form, ("do", "accepted")).status == 200


# Calls that wait for an approval


def test_the_call_that_was_shown_is_approved_and_runs_once(site: Changing) -> None:
    """Its arguments and its digest are on the card; another call is another card."""
    assert site.host.agtp("tools", "call", "files.write_note", "name=old", "text=x").returncode == 0
    delete = {"tool": "files.delete_note", "arguments": {"name": "old"}}
    held = site.execute("mcp.tools.call", delete)
    assert (held.status, held.reason) == (202, "approval-required")
    known = held.document["approval_id"]
    browser = site.browser()
    page = browser.get("/inbox")
    assert held.document["digest"] in page.text and "delete_note" in page.text
    form = page.page.form("/do/decide", target_id=known)
    assert ("do", "deferred") not in form.buttons
    assert browser.send(form, ("do", "accepted"), reason="is old").status == 200
    other = site.execute("mcp.tools.call", {**delete, "arguments": {"name": "other"}})
    assert other.status == 202 and other.document["approval_id"] != known
    assert site.execute("mcp.tools.call", delete).status == 200
    assert site.execute("mcp.tools.call", delete).document.get("approval_id") not in (None, known)


def test_a_call_is_rejected_with_a_reason(site: Changing) -> None:
    """Which its caller is told."""
    call = {"tool": "files.delete_note", "arguments": {"name": "precious"}}
    known = site.execute("mcp.tools.call", call).document["approval_id"]
    browser = site.browser()
    form = browser.get("/inbox").page.form("/do/decide", target_id=known)
    assert browser.send(form, ("do", "rejected"), reason="not on a Friday").status == 200
    told = site.execute("mcp.tools.call", call)
    assert not told.ok and "not on a Friday" in json.dumps(told.document)


def test_a_changed_tool_is_shown_beside_what_was_approved(site: Changing) -> None:
    """And approved as it was shown, by an operator whose certificate names no agent."""
    assert site.execute("mcp.tools.call", {"tool": "changing.work", "arguments": {"amount": 1}}).status == 200
    site.words.write_text("Adds up, and sends it elsewhere.")
    site.execute("mcp.tools.call", {"tool": "changing.leave", "arguments": {}})
    browser = site.browser()
    until(lambda: "sends it elsewhere" in browser.get("/inbox").text)
    assert browser.get("/tools").page.form("/do/approve-definition", upstream="changing", name="work")
    page = browser.get("/inbox")
    assert "Adds up.&quot;" in page.text or 'Adds up."' in page.text
    form = page.page.form("/do/approve-definition", upstream="changing", name="work")
    assert site.execute("mcp.tools.call", {"tool": "changing.work", "arguments": {"amount": 1}}).status != 200
    done = browser.send(form, ("do", "approve"))
    assert done.status == 200 and "changing.work is approved" in done.text
    assert site.execute("mcp.tools.call", {"tool": "changing.work", "arguments": {"amount": 1}}).status == 200


def test_a_server_is_started_anew(site: Changing) -> None:
    """At once, and another process; what is no server is told so."""
    browser = site.browser()

    def pid() -> int:
        (entry,) = (each for each in upstreams() if each["name"] == "changing")
        return int(entry["pid"] or 0) if entry["state"] == "up" else 0

    def upstreams() -> Any:
        return site.host.agtp_json("upstreams", "ls", "--as", "registrar")

    until(pid)
    before = pid()
    form = browser.get("/tools").page.form("/do/restart", upstream="mcp.changing")
    done = browser.send(form, ("do", "restart"))
    assert done.status == 200 and "mcp.changing is being restarted" in done.text
    until(lambda: pid() not in (0, before))
    assert browser.send(form, ("do", "restart"), upstream="mcp.none").status == 404


# Groups, and what was decided


def test_equal_questions_are_one_group_that_is_decided_together(site: Site) -> None:
    """One form decides all; one that another operator decided before is named, with who, and the others are decided."""
    known = [escalated(site, f"task-equal-{number}", "equal?") for number in range(3)]
    browser, other = site.browser(), site.browser()
    page = browser.get("/inbox").page
    assert any(each.startswith("3 equal questions: ") for each in page.said)
    form = page.form("/do/decide-all", targets=" ".join(known))
    assert other.send(page.form("/do/decide", target_id=known[0]), ("do", "rejected"), reason="no").status == 403
    own = other.get("/inbox").page.form("/do/decide", target_id=known[0])
    assert other.send(own, ("do", "rejected"), reason="no").status == 200
    answer = browser.send(form, ("do", "accepted"), reason="all fine")
    assert answer.status == 409 and "2 of 3 decisions are on record" in answer.text
    assert "already decided by" in answer.text
    for each, status in zip(known, ("rejected", "accepted", "accepted"), strict=True):
        (entry,) = site.host.agtp_json(
            *("call", "-", "QUERY", "/escalations", f"escalation_id={each}", "--as", "registrar")
        )["body"]["result"]["escalations"]
        assert entry["status"] == status
    whole = [escalated(site, f"task-whole-{number}", "whole?") for number in range(2)]
    form = browser.get("/inbox").page.form("/do/decide-all", targets=" ".join(whole))
    done = browser.send(form, ("do", "rejected"))
    assert done.status == 200 and "2 decisions are on record." in done.text
    assert browser.send(form, ("do", "rejected"), targets=" ".join(["x"] * 60 + whole), kind="other").status == 400


def test_decided_questions_stay_visible(site: Site) -> None:
    """Below those that wait, and by the filter: with the outcome, who decided, when and why."""
    known = escalated(site, "task-kept")
    browser = site.browser()
    form = browser.get("/inbox").page.form("/do/decide", target_id=known)
    assert browser.send(form, ("do", "accepted"), reason="kept in sight").status == 200
    for path in ("/inbox", "/inbox?show=decided"):
        assert "kept in sight" in browser.get(path).page.said, path
    for path in ("/inbox?show=waiting", "/inbox?show=expired"):
        assert "kept in sight" not in browser.get(path).page.said, path
    assert browser.get("/inbox?show=%00").status == 200


def test_a_second_operator_is_told_who_decided_and_keeps_the_typed_reason(site: Site) -> None:
    """Of an escalation and of a proposal."""
    known = escalated(site, "task-second")
    taken = site.host.agtp("propose", str(ETC / "proposals" / "catalogue.json"), "--duration", "1h", "--json")
    assert "261" in taken.stdout
    (waiting,) = site.host.agtp_json("contracts", "proposals", "--as", "registrar")
    first, second = site.browser(), site.browser()
    for action, fields in (
        ("/do/decide", {"target_id": known}),
        ("/do/decide-proposal", {"proposal_id": waiting["proposal_id"]}),
    ):
        forms = [each.get("/inbox").page.form(action, **fields) for each in (first, second)]
        assert first.send(forms[0], ("do", "rejected"), reason="not now").status == 200
        late = second.send(forms[1], ("do", "accepted"), reason="a long reason")
        assert late.status == 409 and "Already decided" in late.page.said
        assert " by admin at 20" in late.text
        assert "a long reason" in late.text
    assert "not now" in first.get("/inbox?show=decided").page.said


def test_the_inbox_leads_to_export_and_verification(site: Site) -> None:
    """Of the chain that has the decisions; the export verifies."""
    browser = site.browser()
    page = browser.get("/inbox").page
    form = page.form("/evidence/export", chain="host")
    exported = browser.get(f"{form.action}?chain=host")
    assert exported.status == 200 and exported.headers["content-type"] == "application/x-ndjson"
    assert ("data-verify-range", "host") in page.data
