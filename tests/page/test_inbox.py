"""The inbox: what waits is decided by forms, as the person whose certificate entered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browsing import Site, served


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page")) as site:
        yield site


def escalated(site: Site, task: str) -> str:
    """An agent leaves a decision to people."""
    words = [f"task_id={task}", "reason=ambiguous_instruction", 'context:={"question": "<b>?</b>"}']
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
