"""Draw pages that are not views: how to enter, and why something was not shown or not done."""

from __future__ import annotations

import difflib
from dataclasses import replace

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.browser_certificates import BrowserCertificate
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply
from agtphost.page.value_text import show_value

COMMAND = "agtp page"

MOST_NAMED = 5
"""Names of a query that the note about unknown ones has."""


def add_unread_note(view: PageView, visit: PageVisit) -> PageView:
    """
    Return a view that names the members of the query which it does not know, and those whose values it has cut.

    Without that, an address with a misspelt filter would show everything as if it were filtered.
    """
    said = []
    if unread := [f"{name[:64]}={word[:64]}" for name, word in visit.unread.items()]:
        more = f" and {len(unread) - MOST_NAMED} more" if len(unread) > MOST_NAMED else ""
        near = difflib.get_close_matches(next(iter(visit.unread)), sorted(visit.read), 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        known = f"This view does not know {', '.join(unread[:MOST_NAMED])}{more} of the address"
        said.append(f"{known}, and selects nothing by it.{meant}")
    if visit.cut:
        cut = ", ".join(f"{name[:64]} (the first {longest} characters)" for name, longest in visit.cut.items())
        said.append(f"Values of the address are too long, and this view uses only a part of them: {cut}.")
    notes = [tags.p(show_value(each, 1_000), role="alert", class_="said") for each in said]
    return replace(view, body=[*notes, *view.body]) if notes else view


CERTIFICATE = "certificate"
"""The form field that asks to enter with the browser's own certificate."""


def _certificate_button(given: BrowserCertificate | None) -> list[Tag]:
    """Return a button for a browser with a listed certificate, or a sentence for one with another."""
    if given is None:
        return []
    if given.certificate is None:
        return [tags.p(show_value(given.refusal))]
    person = given.certificate.fingerprint[:16]
    said = tags.p("This browser presents a certificate with the fingerprint ", tags.code(person), ".")
    button = tags.p(tags.button("Sign in with this certificate", type="submit"), class_="buttons")
    field = tags.input(type="hidden", name=CERTIFICATE, value=given.digest)
    return [said, tags.form(field, button, method="post", action="/enter")]


def enter_page(why: str = "", status: int = 200, certified: BrowserCertificate | None = None) -> PageView:
    """
    Return the page that asks for a link: a script takes it from the address, people without a script paste it.

    :param certified: the certificate that the browser has presented.
    """
    said = [tags.p(show_value(why), role="alert", class_="refused")] if why else []
    said += _certificate_button(certified)
    return PageView(
        title="Sign in",
        status=status,
        body=[
            *said,
            tags.p(
                "On the machine that has an operator's certificate, run ", tags.code(COMMAND), " and open its link."
            ),
            tags.form(
                elements.field(
                    "token",
                    "Link, or the part of it after #",
                    "token",
                    required="required",
                    autocomplete="off",
                    maxlength="4096",
                ),
                tags.p(tags.button("Sign in", type="submit"), class_="buttons"),
                method="post",
                action="/enter",
                **{"data-enter": ""},
            ),
        ],
    )


def _note(title: str, status: int, *sentences: str) -> PageView:
    return PageView(title=title, status=status, body=[tags.p(show_value(each)) for each in sentences if each])


def missing_page() -> PageView:
    """Return the page for a path without a view."""
    return _note("Not found", 404, "The page has no view at this address.")


def malformed_page(why: str) -> PageView:
    """Return the page for a request that no form makes."""
    return _note("Not understood", 400, why)


def forged_page() -> PageView:
    """Return the page for a form without the session's token."""
    return _note(
        "Not done", 403, "The form does not belong to this session. Open the view again, and submit the form there."
    )


def read_only_page() -> PageView:
    """Return the page for an action where the operator allows only reading."""
    return _note("Not done", 403, "This page only shows: [admin] writes is false in host.toml.")


async def draw_forbidden(visit: PageVisit) -> PageView:
    """Return the page for a view that people of ``[notify]`` may not see; they see only what is addressed to them."""
    return _note("Not shown", 403, "Only operators, registrars and viewers may open this view. You may use the Inbox.")


def ended_page(reply: PageReply, certified: BrowserCertificate | None = None) -> PageView:
    """Return the page to enter again, because the certificate is not accepted any more."""
    return enter_page(
        f"The session has ended: {reply.explanation or reply.reason} {reply.remedy}".strip(), 401, certified
    )


def already_decided_page(reply: PageReply, reason: str = "") -> PageView:
    """
    Return the page for a decision after another person's.

    :param reason: the reason that was typed, so that it is not lost.
    """
    said = [tags.p(reply.explanation, role="alert", class_="refused")]
    if reason:
        said.append(
            tags.p("Your decision was not recorded. The reason that you typed: ", tags.q(show_value(reason, 4_096)))
        )
    return PageView(
        title="Already decided",
        status=reply.status,
        body=[
            *said,
            tags.p(tags.a("Show the decision", href="/inbox?show=decided"), " - ", tags.a("Inbox", href="/inbox")),
            elements.facts(
                (
                    ("Reason", reply.reason),
                    ("Record of your request", elements.call_link(reply.audit_id) if reply.audit_id else "-"),
                )
            ),
        ],
    )


def refused_page(reply: PageReply) -> PageView:
    """Return the page with the host's refusal."""
    return PageView(
        title="The host refused",
        status=reply.status,
        body=[
            elements.facts(
                (
                    ("Status", reply.status),
                    ("Reason", reply.reason),
                    ("Explanation", reply.explanation),
                    ("What to do", reply.remedy or "-"),
                    ("Record", elements.call_link(reply.audit_id) if reply.audit_id else "-"),
                )
            )
        ],
    )
