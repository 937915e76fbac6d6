"""``--quic`` and ``--quic=auto`` on the command line."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from agtphost.cli.options import Connection, connection_options
from tests.rows import each_row


@click.command()
@click.argument("words", nargs=-1)
@connection_options
def command(words: tuple[str, ...], where: Connection, as_json: bool) -> None:
    click.echo(f"{where.quic!r} {' '.join(words)}")


ROWS: dict[str, tuple[tuple[str, ...], str]] = {
    "absent": (("-",), "False -"),
    "alone": (("--quic", "-"), "True -"),
    "before the word auto": (("--quic", "auto"), "True auto"),
    "at the end": (("-", "--quic"), "True -"),
    "auto": (("--quic=auto", "-", "--json"), "'auto' -"),
    "the last one counts": (("--quic=auto", "--quic", "-"), "True -"),
    "behind two dashes": (("--", "--quic=auto"), "False --quic=auto"),
}


@each_row(("words", "printed"), ROWS.values(), ids=ROWS)
def test_value_of_the_option(words: tuple[str, ...], printed: str) -> None:
    """The value stands behind an equals sign; a word that follows is an argument."""
    done = CliRunner().invoke(command, list(words))
    assert (done.exit_code, done.output) == (0, f"{printed}\n")


@pytest.mark.parametrize("value", ["on", "", "AUTO"])
def test_another_value_is_refused(value: str) -> None:
    """The error names both forms."""
    done: Any = CliRunner().invoke(command, [f"--quic={value}", "-"])
    assert done.exit_code == 2
    assert "write --quic or --quic=auto" in done.output


def test_help_names_the_value() -> None:
    """The help has the form as it is written."""
    assert "--quic[=auto]" in CliRunner().invoke(command, ["--help"]).output
