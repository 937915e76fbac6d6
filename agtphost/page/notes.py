"""Pages that are no views: how to enter, and why something was not shown or not done."""

from __future__ import annotations

from twisted.web.template import Tag, tags

from agtphost.page import parts
from agtphost.page.asking import Reply
from agtphost.page.browsers import Shown
from agtphost.page.layout import View
from agtphost.page.text import shown
from agtphost.page.visit import Visit

COMMAND = "agtp page"


CERTIFICATE = "certificate"
"""The field that enters with the certificate of the browser itself."""


def _certified(given: Shown | None) -> list[Tag]:
    """A button for a browser whose certificate is listed; a sentence for one whose is not."""
    if given is None:
        return []
    if given.certificate is None:
        return [tags.p(shown(given.why))]
    person = given.certificate.fingerprint[:16]
    said = tags.p("This browser shows a certificate that stands for ", tags.code(person), ".")
    button = tags.p(tags.button("Enter with this certificate", type="submit"), class_="buttons")
    field = tags.input(type="hidden", name=CERTIFICATE, value=given.digest)
    return [said, tags.form(field, button, method="post", action="/enter")]


def enter(why: str = "", status: int = 200, certified: Shown | None = None) -> View:
    """
    Where a link is given: a script takes it from the address, and people without one paste it.

    :param certified: what the browser has shown itself.
    """
    said = [tags.p(shown(why), role="alert", class_="refused")] if why else []
    said += _certified(certified)
    return View(
        title="Enter",
        status=status,
        body=[
            *said,
            tags.p(
                "On the machine that has an operator's certificate, run ", tags.code(COMMAND), " and open its link."
            ),
            tags.form(
                parts.field(
                    "token",
                    "Link, or what follows the # in it",
                    "token",
                    required="required",
                    autocomplete="off",
                    maxlength="4096",
                ),
                tags.p(tags.button("Enter", type="submit"), class_="buttons"),
                method="post",
                action="/enter",
                **{"data-enter": ""},
            ),
        ],
    )


def _note(title: str, status: int, *sentences: str) -> View:
    return View(title=title, status=status, body=[tags.p(shown(each)) for each in sentences if each])


def missing() -> View:
    """No such view."""
    return _note("Nothing is here", 404, "No view has this address.")


def malformed(why: str) -> View:
    """A request that no page here makes."""
    return _note("Not understood", 400, why)


def forged() -> View:
    """A form without the session's token."""
    return _note(
        "Not done", 403, "The form does not belong to this session. Open the view again, and send it from there."
    )


def read_only() -> View:
    """The operator allows looking alone."""
    return _note("Not done", 403, "Nothing can be done on this page: [admin] writes is false.")


async def for_others(visit: Visit) -> View:
    """A view that is not for people of ``[notify]``, who see what is addressed to them."""
    return _note("Not shown", 403, "This view is for operators, registrars and viewers. The Inbox is yours.")


def over(reply: Reply, certified: Shown | None = None) -> View:
    """The certificate admits nobody any more."""
    return enter(f"The session is over: {reply.explanation or reply.reason} {reply.remedy}".strip(), 401, certified)


def refused(reply: Reply) -> View:
    """What the host says in place of doing it."""
    return View(
        title="The host refused",
        status=reply.status,
        body=[
            parts.facts(
                (
                    ("Status", reply.status),
                    ("Reason", reply.reason),
                    ("Explanation", reply.explanation),
                    ("What helps", reply.remedy or "-"),
                    ("Record", parts.call_link(reply.audit_id) if reply.audit_id else "-"),
                )
            )
        ],
    )
