"""Provide the parts of views: tables, lists of facts, forms and sections, each made in one way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from twisted.web.template import Tag, tags

from agtphost.audit.filters.query_text import join_terms
from agtphost.page.person_client import PageReply
from agtphost.page.value_text import as_json, in_path, show_value
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.display_names import UNNAMED

ROWS = 200
"""Rows of a table; further ones have a link."""

BLANK = ("-", "")
"""Texts of cells that show nothing."""

LONGEST_REASON = 1_000
"""Characters of a typed reason."""


class TableRow(NamedTuple):
    """A row with attributes."""

    cells: Sequence[Any]
    attributes: Mapping[str, str]


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
    Return a table with a caption, whose first column names the rows.

    :param rows: cells are tags or values, or :class:`TableRow`.
    :param whole: whether to draw it without rows, for a script that fills it.
    :param data: ``data-`` attributes, by name without the prefix, underscores for hyphens.
    """
    # A narrow window shows each row as a list, in which each cell has the head of its column.
    labels = [{"data-label": head} for head in heads[1:]]
    lines = [_row(row, labels) for row, _ in zip(rows, range(ROWS), strict=False)]
    if not lines and not whole:
        return tags.p(f"{caption}: {empty[0].lower()}{empty[1:]}", class_="empty")
    made: Tag = tags.table(
        tags.caption(caption),
        tags.thead(tags.tr(*(tags.th(head, scope="col") for head in heads))),
        tags.tbody(*lines),
        **{f"data-{name.replace('_', '-')}": value for name, value in data.items()},
    )
    # Wide tables scroll within their frame, with the keyboard as well.
    return tags.div(made, class_="wide", tabindex="0", role="region", **{"aria-label": caption})


def _row(row: Sequence[Any], labels: Sequence[Mapping[str, str]]) -> Tag:
    cells, attributes = row if isinstance(row, TableRow) else (row, {})
    return tags.tr(
        tags.th(to_cell(cells[0]), scope="row"),
        *(_cell(to_cell(cell), label) for cell, label in zip(cells[1:], labels, strict=False)),
        **attributes,
    )


def _cell(content: Any, label: Mapping[str, str]) -> Tag:
    """Return a cell; a narrow window leaves out those of the class ``blank``."""
    return tags.td(content, **label, **({"class": "blank"} if _is_blank(content) else {}))


def _is_blank(content: Any) -> bool:
    """Return whether what a cell shows is only the sign for nothing."""
    while isinstance(content, Tag) and content.tagName == "span" and len(content.children) == 1:
        content = content.children[0]
    return content in BLANK


def to_cell(cell: Any) -> Any:
    """Return what a cell contains: a tag as it is, any other value as text."""
    return cell if isinstance(cell, Tag) else isolate(show_value(cell, 500))


def mark_signed(member: str, content: Any, **attributes: str) -> Tag:
    """
    Mark what is shown of a record, so that the script compares it with what was signed once it has verified that.

    :param member: of the signed payload, or ``called``: the name of what was called.
    """
    return tags.span(to_cell(content), **{"data-shown": member, **attributes})


LONGEST_WORD = 28
"""Characters of a word that a narrow column still has room for; longer ones are broken."""

_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def isolate(text: str) -> Any:
    """
    Return a text so that it changes nothing around it.

    One with other than ASCII characters may be written from right to left; a long word may have to be broken. Where
    it is a part of a sentence, nothing else says where it begins.
    """
    if _LONG.search(text) is not None:
        return tags.bdi(text, class_="long")
    return text if text.isascii() else tags.bdi(text)


def facts(pairs: Iterable[tuple[str, Any]]) -> Tag:
    """Return a list of names and values."""
    return tags.dl(*(tags.div(tags.dt(name), tags.dd(to_cell(value))) for name, value in pairs))


def section(title: str, *content: Any, **attributes: str) -> Tag:
    """Return a part of a view with a heading."""
    return tags.section(tags.h2(title), *content, **attributes)


def code(value: Any) -> Tag:
    """Return preformatted text, or a value as JSON."""
    text = value if isinstance(value, str) else as_json(value)
    return tags.pre(tags.code(show_value(text)), tabindex="0")


def state(word: object) -> Tag:
    """Return a state as a word; its class sets a colour in addition to the word."""
    text = show_value(word, 64)
    kind = "".join(sign for sign in text.lower() if sign.isalnum() or sign == "-")
    return tags.span(text, class_=f"state state-{kind}")


def term(field: str, value: str) -> str:
    """Return a term of the filter language."""
    return join_terms([(field, value)])


def unbroken(text: str) -> Tag:
    """Return a short text that stays on one line."""
    return tags.span(show_value(text, 64), class_="nowrap")


def in_query(value: object) -> str:
    """Return a value encoded for a query."""
    return quote(str(value), safe="")


def call_link(audit_id: object, text: str | Tag = "", kind: str = "id") -> Tag:
    """
    Return a link to one call.

    :param kind: classes of the style sheet; ``id time`` for a time, which is never broken.
    """
    return tags.a(text or f"{str(audit_id)[:12]}...", href=f"/calls/{in_path(audit_id)}", class_=kind)


def refusal_section(title: str, reply: PageReply) -> Tag:
    """Return a section with the host's refusal of its content."""
    said = [tags.p(f"{reply.status} {show_value(reply.reason)}: {show_value(reply.explanation)}")]
    if reply.remedy:
        said.append(tags.p(show_value(reply.remedy)))
    return section(title, *said, class_="refused")


def card(title: str, key: str, *content: Any) -> Tag:
    """Return a card for one waiting item; ``key`` distinguishes it from all others."""
    return tags.article(tags.h3(show_value(title, 200)), *content, id=f"item-{to_id(key)}")


def foldable_card(title: str, note: str, key: str, *content: Any, unfolded: bool) -> Tag:
    """
    Return a card of which only its title is seen until it is unfolded.

    :param note: a phrase next to the title.
    """
    head = tags.summary(tags.h3(show_value(title, 200)), tags.span(show_value(note, 200), class_="note"))
    fold = tags.details(head, *content, **({"open": "open"} if unfolded else {}))
    return tags.article(fold, id=f"item-{to_id(key)}", class_="foldable")


def subheading(text: str) -> Tag:
    """Return the heading of a part of a card."""
    return tags.h4(text)


def to_id(text: str) -> str:
    """Return a text as part of an ``id``."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text)[:128]


def definition(text: str) -> Tag:
    """Return JSON from another party, with a member per line."""
    try:
        return code(jsontext.decode(text.encode()))
    except jsontext.JSONTextError:
        return code(text)


# Forms


def field(name: str, label: str, known: str, value: str = "", **attributes: str) -> Tag:
    """Return a text field with its label; its id, ``known``, must be unique on the page."""
    given = {"type": "text", "value": show_value(value) if value else "", "dir": "auto", **attributes}
    return tags.p(tags.label(label, for_=known), tags.input(name=name, id=known, **given))


def choice(name: str, label: str, known: str, options: Iterable[tuple[str, str]], value: str = "") -> Tag:
    """Return a selection list."""
    made = [
        tags.option(text, value=each, **({"selected": "selected"} if each == value else {})) for each, text in options
    ]
    return tags.p(tags.label(label, for_=known), tags.select(*made, name=name, id=known))


def checkbox(name: str, label: str, known: str) -> Tag:
    """Return a box to tick, with its label; ticked it has the value ``yes``."""
    box = tags.input(type="checkbox", name=name, id=known, value="yes", required="required")
    return tags.p(box, " ", tags.label(label, for_=known), class_="tick")


def reason(known: str, *, required: bool = False) -> Tag:
    """Return the field for the reason of a decision."""
    needed = {"required": "required"} if required else {}
    return field("reason", "Reason", to_id(known), maxlength=str(LONGEST_REASON), autocomplete="off", **needed)


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
    Return a form for one of :mod:`agtphost.page.actions`.

    :param back: the path to return to.
    :param hidden: the item it is about.
    :param buttons: value of ``do`` and text of each.
    :param label: its purpose, for people who do not see its position.
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
    """Return a form that requests the same view with another query."""
    return tags.form(*fields, tags.p(tags.button(text, type="submit"), class_="buttons"), method="get", action=path)


def brief_agent(agent_id: object, otherwise: str = UNNAMED, label: object = None) -> Tag:
    """Return a link to an agent by its label or the beginning of its id; without an id, a given text."""
    text = str(agent_id or "")
    if not text:
        return tags.span(otherwise)
    return tags.a(
        isolate(show_value(label, 64)) if label else f"{text[:12]}...",
        href=f"/agents/{in_path(text)}",
        class_="id",
        title=show_value(text, 128),
    )
