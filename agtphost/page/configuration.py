"""Show the configuration in force, what a reload of its file would take, and the form that reloads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.form_fields import Fields, FormRequest, require_button, require_confirmation
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, PersonClient, gather_replies
from agtphost.page.value_text import show_value
from agtphost.vocabulary.reasons import Reason

METHOD, PATH = "ACTIVATE", "/configuration"
"""The request that reloads."""

EVERY = "*"
"""In ``restart``: every key of a section."""


async def draw(visit: PageVisit) -> PageView:
    """Show each section as in the file, with secrets masked, and a comparison with the file where it is asked for."""
    (reply,) = await gather_replies(visit.ask.inspect("configuration"))
    if not reply.ok:
        return PageView(title="Config", body=[elements.refusal_section("Not shown", reply)])
    intro = tags.p(
        "This host runs with what it has read from ",
        tags.code(str(reply.result.get("file"))),
        ". The page never writes the file. A reload applies most changes; what it cannot apply waits for a restart.",
    )
    body: list[Any] = [intro]
    if visit.may("reload"):
        body.append(await _comparison(visit))
    body += [_section(entry) for entry in reply.entries("sections")]
    return PageView(title="Config", body=body)


def _section(entry: Mapping[str, Any]) -> Tag:
    keys = entry.get("restart")
    keys = keys if isinstance(keys, list) else []
    if keys == [EVERY]:
        said = "Changes need a restart."
    elif keys:
        said = f"A reload applies changes, but those of {', '.join(map(str, keys))} need a restart."
    else:
        said = "A reload applies changes."
    return elements.section(
        f"[{entry.get('name')}]", tags.p(said, class_="note"), elements.code(str(entry.get("toml")))
    )


async def _comparison(visit: PageVisit) -> Tag:
    title = "Effect of a reload"
    ask = elements.search(
        "/config", tags.input(type="hidden", name="compare", value="yes"), text="Compare with the file"
    )
    if not visit.query_choice("compare", ("yes",)):
        said = tags.p(
            "The comparison reads the file and all files that it names, as ", tags.code("agtp reload --check"), "."
        )
        return elements.section(title, said, ask)
    reply = await visit.ask.ask(METHOD, PATH, {"check": True})
    content = [*outcome(reply, "A reload would apply"), ask]
    if reply.ok and reply.result.get("taken"):
        content.append(
            elements.action(
                "reload",
                visit.csrf,
                "/config",
                {},
                elements.checkbox("confirmed", "Put these changes into force", "reload-confirmed"),
                buttons=(("reload", "Reload"),),
                label="Reload the configuration",
            )
        )
    return elements.section(title, *content)


def outcome(reply: PageReply, taken_words: str) -> list[Tag]:
    """
    Return what a reload took or would take.

    :param taken_words: the beginning of the caption of what is taken.
    """
    if reply.reason == Reason.CONFIGURATION_REFUSED:
        problems = reply.document.get("problems")
        rows = [
            (_place(each), each.get("message"), each.get("hint") or "-")
            for each in (problems if isinstance(problems, list) else ())
            if isinstance(each, dict)
        ]
        refused = tags.p("A reload would change nothing: the files have faults.", role="alert", class_="refused")
        return [refused, elements.table("Faults", ("Where", "What", "What to do"), rows)]
    if not reply.ok:
        return [elements.refusal_section("Not compared", reply)]
    warnings = reply.result.get("warnings")
    return [
        _list(taken_words, reply.result.get("taken"), "nothing, as the host runs with what the files say"),
        _list("Needs a restart", reply.result.get("waiting"), "nothing"),
        *([_list("Warnings", warnings, "none")] if warnings else []),
    ]


def _place(problem: Mapping[str, Any]) -> str:
    line = f":{problem['line']}" if problem.get("line") else ""
    return f"{problem.get('file') or '-'}{line}"


def _list(title: str, given: object, none: str) -> Tag:
    items = [show_value(each, 500) for each in given] if isinstance(given, list) else []
    if not items:
        return tags.p(f"{title}: {none}.")
    return tags.div(tags.p(f"{title}:"), tags.ul(*(tags.li(each) for each in items)))


def reload(fields: Fields) -> FormRequest:
    """Return the ACTIVATE that reloads the configuration."""
    require_button(fields, "reload")
    require_confirmation(fields, "Tick the box to say that you reload the host.")
    return FormRequest(method=METHOD, path=PATH, given={}, done="The configuration was reloaded.", show=_answer)


async def _answer(reply: PageReply, _: PersonClient) -> PageView:
    body: list[Any] = [*outcome(reply, "Applied")]
    if reply.audit_id:
        body.append(tags.p("Record: ", elements.call_link(reply.audit_id)))
    body.append(tags.p(tags.a("Back to the configuration", href="/config")))
    return PageView(title="Reload", status=200 if reply.ok else reply.status, body=body)
