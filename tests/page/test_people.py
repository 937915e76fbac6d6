"""People of ``[notify]`` on the page: they see, answer and decide what is addressed to them, and see nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from agtphost.page.views import VIEWS
from agtphost.testing.identities import key_of
from tests.page.browsing import Browser, Site, served
from tests.page.test_rights import certified

CFO, CLERK, STRANGER = "chief financial officer", "clerk", "somebody"

SECTIONS = f"""
[methods]
standard = ["REPLY"]

[notify.people]
usr-cfo = "{key_of(CFO).public.fingerprint}"
usr-clerk = "{key_of(CLERK).public.fingerprint}"

[notify.groups]
finance = ["usr-cfo", "operator"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page"), append=SECTIONS) as site:
        yield site


def words_of(site: Site, name: str) -> tuple[str, ...]:
    """How ``agtp`` connects as somebody whose certificate names no agent."""
    state, label = site.host.state, name.replace(" ", "-")
    key_of(name).save(state / f"{label}.key")
    file = certified(site, key_of(name), label, datetime.now(UTC))
    return "--cert", str(file), "--key", str(state / f"{label}.key")


@pytest.fixture(scope="module")
def cfo(site: Site) -> Browser:
    return site.browser(*words_of(site, CFO))


def escalated(site: Site, task: str, *words: str) -> str:
    given = [f"task_id={task}", "reason=scope_limit", 'context:={"resource": "vendor-contract-750k"}', *words]
    done = site.host.agtp_json("call", "-", "ESCALATE", "/", *given)
    assert done["status"] == 202, done
    return str(done["body"]["result"]["escalation_id"])


def test_a_person_answers_and_decides_on_the_page(site: Site, cfo: Browser) -> None:
    """AGTP-334: what is addressed to the person and to its group is there, and nothing of others."""
    mine = escalated(site, "task-1", "recipient=usr-cfo")
    group = escalated(site, "task-2", "recipient=finance")
    others = [escalated(site, "task-3", "recipient=usr-clerk"), escalated(site, "task-4")]
    shown = cfo.get("/inbox")
    decided = {form.fields["target_id"] for form in shown.page.forms if form.action == "/do/decide"}
    assert decided == {mine, group}
    assert "vendor-contract-750k" in shown.text and not any(each in shown.text for each in others)
    answered = cfo.send(shown.page.form("/do/reply", in_reply_to=mine), ("do", "reply"), content="Ask for less.")
    assert answered.status == 200 and f"The answer to {mine} is in" in answered.text
    (told,) = site.host.agtp_json("call", "-", "QUERY", "/notifications")["body"]["result"]["notifications"]
    assert told["content"]["content"] == "Ask for less."
    after = cfo.send(answered.page.form("/do/decide", target_id=mine), ("do", "rejected"), reason="too dear")
    assert after.status == 200 and f"{mine} is rejected" in after.text
    (entry,) = site.host.agtp_json("call", "-", "QUERY", "/escalations", f"escalation_id={mine}")["body"]["result"][
        "escalations"
    ]
    assert entry["decision"]["by_name"] == "usr-cfo" and '<span class="person">usr-cfo</span>' in after.text
    assert '<td data-label="By">usr-cfo</td>' in after.text
    assert (entry["status"], entry["decision"]["by"]) == ("rejected", f"key:{key_of(CFO).public.fingerprint}")
    found = [site.host.agtp("audit", "search", *words).stdout for words in (("method:CONFIRM",), ("text:usr-cfo",))]
    assert all("usr-cfo (person)" in each for each in found), found
    assert ",usr-cfo (person),CONFIRM /," in site.host.agtp("audit", "search", "method:CONFIRM", "--csv").stdout


def test_a_person_answers_and_acknowledges_a_message_on_the_page(site: Site, cfo: Browser) -> None:
    """AGTP-334: a NOTIFY to the person or its group is in the inbox with its task, and one to others is not."""
    sent = {}
    for name in ("usr-cfo", "finance", "usr-clerk"):
        given = (f"recipient={name}", "topic=budget", f"content=<i>for {name}</i> \u202eabc")
        told = site.host.agtp_json("call", "-", "NOTIFY", "/", *given, "--task-id", f"task-{name}")["body"]["result"]
        sent[name] = str(told.get("notification_id") or told["notifications"][0]["notification_id"])
    shown = cfo.get("/inbox")
    offered = {form.fields["in_reply_to"] for form in shown.page.forms if form.action == "/do/reply"}
    assert offered >= {sent["usr-cfo"], sent["finance"]} and sent["usr-clerk"] not in shown.text
    assert "&lt;i&gt;for usr-cfo" in shown.text and "<i>" not in shown.text and "task-usr-cfo" in shown.text
    answered = cfo.send(shown.page.form("/do/reply", in_reply_to=sent["usr-cfo"]), ("do", "reply"), content="Seen.")
    assert answered.status == 200, answered.text
    own = site.host.agtp_json("call", "-", "QUERY", "/notifications")["body"]["result"]["notifications"]
    assert "Seen." in [each["content"].get("content") for each in own if isinstance(each["content"], dict)]
    after = cfo.send(answered.page.form("/do/decide", target_id=sent["usr-cfo"]), ("do", "accepted"))
    assert after.status == 200 and sent["usr-cfo"] in after.text
    left = {form.fields["in_reply_to"] for form in cfo.get("/inbox").page.forms if form.action == "/do/reply"}
    assert sent["finance"] in left and sent["usr-cfo"] not in left


def test_a_form_for_another_persons_escalation_is_refused(site: Site, cfo: Browser) -> None:
    """AGTP-334: a target that is put into one's own form answers as one that is not there."""
    escalated(site, "task-5", "recipient=usr-cfo")
    foreign = escalated(site, "task-6", "recipient=usr-clerk")
    page = cfo.get("/inbox").page
    for action, name in (("/do/decide", "target_id"), ("/do/reply", "in_reply_to")):
        form = page.form(action)
        answers = []
        for target in (foreign, f"esc-{'0' * 32}"):
            form.fields[name] = target
            button = ("do", "accepted" if action == "/do/decide" else "reply")
            answers.append(cfo.send(form, button, **({} if action == "/do/decide" else {"content": "x"})))
        assert [each.status for each in answers] == [404, 404]
        assert all("target-unknown" in each.text for each in answers)


def test_a_person_sees_nothing_else_of_the_host(site: Site, cfo: Browser) -> None:
    """AGTP-334: no other view, no feed, no action of operators; and who is nobody here doesn't come in."""
    for path in VIEWS:
        answer = cfo.get(path)
        assert answer.status == (200 if path in ("/", "/inbox") else 403), path
        assert {each for each in answer.page.links if each in VIEWS} <= {"/", "/inbox"}, path
    assert cfo.ask("GET", "/live").status == 403
    csrf = cfo.get("/inbox").page.form("/leave").fields["csrf"]
    swept = cfo.ask("POST", "/do/sweep", {"csrf": csrf, "do": "sweep", "back": "/"})
    assert swept.status == 403, swept.text
    refused = site.host.agtp("page", *words_of(site, STRANGER))
    assert refused.returncode != 0 and "[notify.people]" in refused.stdout + refused.stderr


def test_an_operator_sees_to_whom_it_is_addressed(site: Site) -> None:
    """AGTP-334: operators see all of them, each with its recipient."""
    known = escalated(site, "task-7", "recipient=usr-clerk")
    shown = site.browser().get("/inbox")
    assert known in shown.text and "usr-clerk" in shown.text
