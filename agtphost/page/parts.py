"""What views are made of: tables, lists of facts, forms, sections; one way of making each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from twisted.web.template import Tag, tags

from agtphost.page.asking import Reply
from agtphost.page.text import as_json, in_path, shown
from agtphost.vocabulary import jsontext

ROWS = 200
"""Of a table, at the most; what is beyond has a link."""

LONGEST_REASON = 1_000
"""Characters of a reason that somebody types."""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Any]],
    empty: str = "Nothing.",
    *,
    whole: bool = False,
    **data: str,
) -> Tag:
    """
    A table with a caption, its first column as the rows' names.

    :param rows: cells are tags or values.
    :param whole: whether it is drawn where it has no row as well: a script fills it.
    :param data: ``data-`` attributes, by name without the prefix, underscores for hyphens.
    """
    lines = [
        tags.tr(tags.th(_cell(row[0]), scope="row"), *(tags.td(_cell(cell)) for cell in row[1:]))
        for row, _ in zip(rows, range(ROWS), strict=False)
    ]
    if not lines and not whole:
        return tags.p(f"{caption}: {empty[0].lower()}{empty[1:]}", class_="empty")
    made: Tag = tags.table(
        tags.caption(caption),
        tags.thead(tags.tr(*(tags.th(head, scope="col") for head in heads))),
        tags.tbody(*lines),
        **{f"data-{name.replace('_', '-')}": value for name, value in data.items()},
    )
    # Wide tables scroll by themselves, with the keyboard as well.
    return tags.div(made, class_="wide", tabindex="0", role="region", **{"aria-label": caption})


def _cell(cell: Any) -> Any:
    return cell if isinstance(cell, Tag) else shown(cell, 500)


def facts(pairs: Iterable[tuple[str, Any]]) -> Tag:
    """Names and values."""
    return tags.dl(*(tags.div(tags.dt(name), tags.dd(_cell(value))) for name, value in pairs))


def section(title: str, *content: Any, **attributes: str) -> Tag:
    """A part of a view under a heading of its own."""
    return tags.section(tags.h2(title), *content, **attributes)


def code(value: Any) -> Tag:
    """Text, or a value as JSON, as it is written."""
    text = value if isinstance(value, str) else as_json(value)
    return tags.pre(tags.code(shown(text)), tabindex="0")


def state(word: object) -> Tag:
    """A word of a state; its class has its colour, which never says anything alone."""
    text = shown(word, 64)
    kind = "".join(sign for sign in text.lower() if sign.isalnum() or sign == "-")
    return tags.span(text, class_=f"state state-{kind}")


def in_query(value: object) -> str:
    """A value within a query."""
    return quote(str(value), safe="")


def call_link(audit_id: object, text: str = "") -> Tag:
    """A link to one call."""
    return tags.a(text or f"{str(audit_id)[:12]}...", href=f"/calls/{in_path(audit_id)}", class_="id")


def refused(title: str, reply: Reply) -> Tag:
    """Where the host does not tell something: what it says instead."""
    said = [tags.p(f"{reply.status} {shown(reply.reason)}: {shown(reply.explanation)}")]
    if reply.remedy:
        said.append(tags.p(shown(reply.remedy)))
    return section(title, *said, class_="refused")


def card(title: str, key: str, *content: Any) -> Tag:
    """One thing that waits; ``key`` tells it from all others."""
    return tags.article(tags.h3(shown(title, 200)), *content, id=f"item-{ident(key)}")


def ident(text: str) -> str:
    """A text as part of an ``id``."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text)[:128]


def definition(text: str) -> Tag:
    """JSON that somebody else wrote, a member a line."""
    try:
        return code(jsontext.decode(text.encode()))
    except jsontext.JSONTextError:
        return code(text)


# Forms


def field(name: str, label: str, known: str, value: str = "", **attributes: str) -> Tag:
    """A text field with its label; ``known``, its id, is unique on the page."""
    given = {"type": "text", "value": shown(value) if value else "", **attributes}
    return tags.p(tags.label(label, for_=known), tags.input(name=name, id=known, **given))


def choice(name: str, label: str, known: str, options: Iterable[tuple[str, str]], value: str = "") -> Tag:
    """A list of which one is chosen."""
    made = [
        tags.option(text, value=each, **({"selected": "selected"} if each == value else {})) for each, text in options
    ]
    return tags.p(tags.label(label, for_=known), tags.select(*made, name=name, id=known))


def reason(known: str, *, required: bool = False) -> Tag:
    """Why somebody decides as they do."""
    needed = {"required": "required"} if required else {}
    return field("reason", "Reason", ident(known), maxlength=str(LONGEST_REASON), autocomplete="off", **needed)


def action(
    name: str,
    csrf: str,
    back: str,
    hidden: Mapping[str, str],
    *visible: Any,
    buttons: Sequence[tuple[str, str]],
    label: str,
) -> Tag:
    """
    A form for one of :mod:`agtphost.page.actions`.

    :param back: the path to come back to.
    :param hidden: what it is about.
    :param buttons: value of ``do`` and text of each.
    :param label: what it is for, for those who do not see where it stands.
    """
    known = {"csrf": csrf, "back": back, **hidden}
    return tags.form(
        *(tags.input(type="hidden", name=each, value=value) for each, value in known.items()),
        *visible,
        tags.p(
            *(tags.button(text, type="submit", name="do", value=value) for value, text in buttons), class_="buttons"
        ),
        method="post",
        action=f"/do/{name}",
        **{"aria-label": label},
    )


def search(path: str, *fields: Any, text: str = "Filter") -> Tag:
    """A form that asks for the same view with other words."""
    return tags.form(*fields, tags.p(tags.button(text, type="submit"), class_="buttons"), method="get", action=path)


def brief_agent(agent_id: object, nobody: str = "nobody", label: object = None) -> Tag:
    """A link to one agent by its label, else by the beginning of its id; ``nobody`` where it is empty."""
    text = str(agent_id or "")
    if not text:
        return tags.span(nobody)
    return tags.a(
        shown(label, 64) if label else f"{text[:12]}...",
        href=f"/agents/{in_path(text)}",
        class_="id",
        title=shown(text, 128),
    )
