"""The command ``agtp docs``: print the documentation of the installed version."""

from __future__ import annotations

import difflib
import sys
from itertools import pairwise
from pathlib import Path

import click

from agtphost.cli import shipped
from agtphost.cli.failures import WrongInput
from agtphost.cli.options import json_option
from agtphost.cli.output import print_entries, print_json

_GENERATED = ("index", "changelog", "contributing")
"""Pages of the site without content."""


def list_pages() -> dict[str, Path]:
    """Return the files of the documentation's pages, by the names of the pages."""
    folder = shipped.folder("docs")
    found = {path.stem: path for path in sorted(folder.glob("*.rst")) if path.stem not in _GENERATED}
    extending = {f"extending/{path.stem}": path for path in sorted((folder / "extending").glob("*.rst"))}
    return found | extending


def _title(page: Path) -> str:
    """Return the first underlined line of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    underlined = (line for line, under in pairwise(lines) if line and set(under) == {"="})
    return next(underlined, page.stem)


@click.command()
@click.argument("page", required=False, metavar="[PAGE]")
@json_option
def command(page: str | None, as_json: bool) -> None:
    """
    Print a page of the documentation, or list all pages.

    \b
    Examples:
      agtp docs
      agtp docs first-minutes
    """
    pages = list_pages()
    if page is None:
        listed = [{"page": name, "title": _title(path), "file": str(path)} for name, path in pages.items()]
        print_entries(listed, ("page", "title"), as_json)
        return
    if page not in pages:
        near = " or ".join(difflib.get_close_matches(page, pages))
        remedy = f"Did you mean {near}?" if near else "List the pages with `agtp docs`."
        raise WrongInput(f"the documentation has no page {page!r}", remedy)
    text = pages[page].read_text(encoding="utf-8")
    if as_json:
        print_json({"page": page, "file": str(pages[page]), "text": text})
    elif sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text)
