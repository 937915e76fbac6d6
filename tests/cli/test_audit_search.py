"""``agtp audit search`` without a host: completion, and what is refused before any request."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from agtphost.audit.filters import FIELDS
from agtphost.cli.audit.commands import command
from agtphost.cli.completion_sources import attach
from agtphost.cli.root import agtp
from tests.cli.conftest import Run


def completed(*words: str) -> list[str]:
    """Return the words that a shell offers after these."""
    *before, incomplete = words
    attach(command)
    found = BashComplete(agtp, {}, "agtp", "_AGTP_COMPLETE").get_completions(["audit", *before], incomplete)
    return [item.value for item in found]


def test_names_are_completed(folder: Path) -> None:
    """Agents, and the words that stand in their place, complete in each command that takes the filter."""
    for name in ("search", "walk", "follow"):
        assert completed(name, "--agent", "de") == ["demo"], name
    assert set(completed("search", "--chain", "")) >= {"demo", "librarian", "host"}
    assert "QUERY" in completed("search", "--method", "QU")
    assert completed("search", "--count", "") == ["tool", "agent", "status", "hour"]


def test_every_field_is_an_option_of_search(run: Run) -> None:
    """The help names each field of the language."""
    shown = run("audit", "search", "--help").output
    assert all(f"--{name} " in shown for name in FIELDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search", "--status", "abc"), "Write a number from 100 to 999, or a class such as 4xx."),
        (("search", "from:2026-11-27T10:00"), "Write 2026-11-27T10:00Z for UTC"),
        (("search", "--offline", "agent:unknown"), "no agent is named 'unknown' here"),
        (("export", "--since", "yesterday"), "from 'yesterday' is not a time"),
        (("walk", "--from", "-1h", "--until", "-2h"), "is not after from '-1h'"),
        (("follow", "--filter", "status:x"), "status 'x' is not valid"),
    ],
)
def test_a_wrong_filter_is_refused_here(run: Run, folder: Path, words: tuple[str, ...], said: str) -> None:
    """No host is asked: exit status 2, with what is wrong and what to write."""
    done = run("audit", *words)
    assert done.exit_code == 2 and said in done.output, done.output
