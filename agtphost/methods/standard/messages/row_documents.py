"""Documents of rows: JSON, Markdown and HTML, in which no row says anything but text."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.vocabulary import jsontext

COLUMNS = 32
MEDIA_TYPES = {
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
}
_MARKED = re.compile(r"([\\`*_{}\[\]()#+!|~-])")


@dataclass(frozen=True, kw_only=True)
class ReportDocument:
    """The content of a report."""

    title: str
    members: Mapping[str, str]
    """The members above the rows: time, author and subject."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def columns(self) -> list[str]:
        """The members of all rows, in the order in which they come."""
        return list(dict.fromkeys(name for row in self.rows for name in row))[:COLUMNS]


def render(document: ReportDocument, form: str) -> str:
    """Return the text of a document in one of its forms: ``json``, ``markdown`` or ``html``."""
    return {"json": _json, "markdown": _markdown, "html": _html}[form](document)


def _json(document: ReportDocument) -> str:
    told = {"title": document.title, **document.members, "rows": [dict(row) for row in document.rows]}
    return jsontext.encode(told).decode("utf-8")


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else jsontext.encode(value).decode("utf-8")
    return "".join(each if each.isprintable() else " " for each in text)


def _escape_markdown(value: Any) -> str:
    return _MARKED.sub(r"\\\1", html.escape(_text(value), quote=False))


def _markdown(document: ReportDocument) -> str:
    columns = document.columns
    lines = [f"# {_escape_markdown(document.title)}", ""]
    lines += [f"- {_escape_markdown(name)}: {_escape_markdown(value)}" for name, value in document.members.items()]
    if columns:
        lines += ["", _line(map(_escape_markdown, columns)), _line("---" for _ in columns)]
        lines += [_line(_escape_markdown(row.get(name)) for name in columns) for row in document.rows]
    return "\n".join(lines) + "\n"


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _html(document: ReportDocument) -> str:
    columns = document.columns
    title = html.escape(_text(document.title))
    above = "".join(
        f"<dt>{html.escape(_text(name))}</dt><dd>{html.escape(_text(value))}</dd>"
        for name, value in document.members.items()
    )
    head = "".join(f"<th>{html.escape(_text(name))}</th>" for name in columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_text(row.get(name)))}</td>' for name in columns)}</tr>"
        for row in document.rows
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1><dl>{above}</dl>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )
