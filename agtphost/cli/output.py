"""What commands print: JSON for machines, tables and text for people, and no character that plays tricks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

WIDE = 10_000
"""Columns where no terminal limits them: nothing is cut or folded in a pipe."""


def visible(text: str) -> str:
    """
    ``text`` with every character that a terminal would obey rather than show written out.

    What hosts and tools send is printed, and must not move the cursor, change
    colours or reorder the line.
    """
    if text.isascii() and text.isprintable():
        return text
    from agtphost.client.terminal import escape

    return escape(text, keep="\n\t")


def print_json(value: Any) -> None:
    """One JSON text, ASCII, for machines."""
    click.echo(json.dumps(value, indent=2))


def print_document(value: Any) -> None:
    """A JSON value for people."""
    from agtphost.client.terminal import render_json

    click.echo(render_json(value))


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """``name  value`` lines; empty values are left out."""
    shown = [(name, str(value)) for name, value in fields if value not in (None, "", (), [])]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:<{width}}  {visible(value)}")


def print_summary(fields: Mapping[str, object]) -> None:
    """The same of a mapping, lists joined by commas."""
    print_fields(
        (name, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in fields.items()
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns: folded to a terminal's width, never cut anywhere else."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else WIDE, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible("" if cell is None else str(cell))) for cell in row))
    if terminal:
        console.print(table)
        return
    with console.capture() as drawn:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in drawn.get().rstrip("\n").split("\n")))
