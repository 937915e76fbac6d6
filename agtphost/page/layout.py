"""Frame every view: head, navigation, main part; complete HTML that needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page.entrance import PageSession
from agtphost.page.markup import encode_html
from agtphost.page.value_text import show_value

NAVIGATION = (
    ("/", "Overview"),
    ("/inbox", "Inbox"),
    ("/calls", "Calls"),
    ("/agents", "Agents"),
    ("/sessions", "Sessions"),
    ("/tools", "Tools"),
    ("/evidence", "Evidence"),
    ("/can", "Check access"),
    ("/contracts", "Contracts"),
    ("/config", "Config"),
)
"""Paths and names of the views, in the order of their importance."""

DOCTYPE = b"<!DOCTYPE html>\n"


@dataclass(frozen=True, kw_only=True)
class PageView:
    """A page without its frame."""

    title: str
    body: Sequence[Any]
    """Tags and texts after the heading."""

    status: int = 200
    """The HTTP status."""


def page(
    view: PageView,
    path: str,
    session: PageSession | None,
    person: str = "",
    views: Sequence[tuple[str, str]] = NAVIGATION,
) -> bytes:
    """
    Return the octets of a view.

    :param path: of the view, which is marked in the navigation.
    :param session: None before entering; then the navigation is left out.
    :param person: the name of the person.
    :param views: paths and names of the views for this person.
    """
    said: list[Any] = []
    if session is not None and session.message:
        said = [tags.p(show_value(session.message), role="status", class_="said")]
        session.message = ""
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.meta(name="color-scheme", content="light dark"),
        tags.title(f"{view.title} - agtphost"),
        tags.link(rel="icon", href="/static/icon.svg"),
        tags.link(rel="stylesheet", href="/static/page.css"),
        tags.link(rel="stylesheet", href="/static/forms.css"),
        tags.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tags.script(src="/static/page.js", type="module"),
    )
    body = tags.body(
        tags.a("Skip to the main part", href="#main", class_="skip"),
        _banner(path, session, person, views),
        Tag("main")(tags.h1(view.title), *said, *view.body, id="main", tabindex="-1"),
        tags.footer(tags.p("This host keeps a signed record of every view and every action here.")),
    )
    return DOCTYPE + encode_html(tags.html(head, body, lang="en"))


def _banner(path: str, session: PageSession | None, person: str, views: Sequence[tuple[str, str]]) -> Tag:
    title = tags.p(tags.a("agtphost", href="/"), class_="name")
    if session is None:
        return tags.header(title)
    return tags.header(
        title,
        tags.nav(tags.ul(*(tags.li(_link(path, where, name)) for where, name in views)), **{"aria-label": "Views"}),
        tags.form(
            tags.input(type="hidden", name="csrf", value=session.csrf),
            tags.span(show_value(person), class_="person"),
            tags.button("Sign out", type="submit"),
            method="post",
            action="/leave",
        ),
    )


def _link(path: str, where: str, name: str) -> Tag:
    here = path == where or (where != "/" and path.startswith(f"{where}/"))
    link: Tag = tags.a(name, href=where)
    return link(**{"aria-current": "page"}) if here else link
