"""``agtp audit search`` without a host: completion, and what is refused before any request."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from agtphost.audit.filters import FIELDS
from agtphost.cli.audit.commands import command
from agtphost.cli.audit.filter_options import filter_options, read_filter
from agtphost.cli.completion_sources import attach
from agtphost.cli.root import agtp
from agtphost.stores import open_store
from agtphost.testing.store_drafts import KEYS, draft, write_drafts
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
    with (folder / "host.toml").open("a") as file:
        file.write('[[operator]]\nname = "anna"\nkey = "state/registrar.pem"\nrole = "viewer"\n')
    assert completed("search", "--operator", "a") == ["anna"]
    assert completed("walk", "--reason", "not-f") == ["not-found"]
    assert completed("search", "--count", "") == ["tool", "agent", "operator", "status", "hour"]


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
        (("search", "--status", "404", "--status", "401"), "status is given twice"),
        (("search", "--offline", "--text", "a b", "--agent", "demo", "--agent", "librarian"), "agent is given twice"),
        (("export", "--caller", "demo", "--caller", "librarian"), "caller is given twice"),
        (("walk", "--filter", "status:404", "--filter", "status:401"), "status is given twice"),
        (("follow", "--from", "-1h", "--since", "-2h"), "from is given twice"),
        (("walk", "status:4xx"), "Write: agtp audit walk --filter status:4xx"),
        (("export", "tool:a b"), "Write: agtp audit export --filter 'tool:a b'"),
        (("follow", "status:4xx"), "Write: agtp audit follow --filter status:4xx"),
    ],
)
def test_a_wrong_filter_is_refused_here(run: Run, folder: Path, words: tuple[str, ...], said: str) -> None:
    """No host is asked: exit status 2, with what is wrong and what to write."""
    done = run("audit", *words)
    assert done.exit_code == 2 and said in done.output, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reason", "not_found"), "no record matches; did you mean the reason not-found?"),
        (("--reason", "planned"), "no record matches\n"),
        (("status=404",), "status=404 is looked for as a text: write status:404"),
        (("caller_id=demo",), "caller_id=demo is looked for as a text: write caller:demo"),
        (("--operator", "admn"), "no record matches; did you mean the operator admin?"),
        (("--method", "QUREY"), "no record matches; did you mean the method QUERY?"),
        (("--operator", "admin"), "no record matches\n"),
        (("--filter", "reason:not_found", "status:4xx"), "no record matches; did you mean the reason not-found?"),
        (("--tool", "x", "price=4"), "SERVER.TOOL, as `agtp tools ls` lists them\n"),
    ],
)
def test_a_search_that_finds_nothing_says_what_may_be_wrong(
    run: Run, folder: Path, words: tuple[str, ...], said: str
) -> None:
    """A reason or an operator that is close to a known one, and a field that is written like a parameter."""
    store = open_store(f"sqlite:{folder / 'state/agtphost.sqlite3'}", create=True)
    write_drafts(store, draft())
    store.close()
    with (folder / "host.toml").open("a") as config:
        config.write('\n[[operator]]\nname = "admin"\nkey = "state/registrar.pem"\nrole = "administrator"\n')
    done = run("audit", "search", "--offline", *words)
    assert done.exit_code == 0 and said in done.stderr, done.output


def test_texts_that_are_given_as_several_options_all_count() -> None:
    """As in the language, where a filter may have several texts."""
    given: list[Mapping[str, str]] = []

    @click.command()
    @filter_options()
    def receive(given: Mapping[str, str], taken: list[Mapping[str, str]] = given) -> None:
        taken.append(given)

    receive.main(["--text", "one two", "--text", "three:four", "--status", "4xx"], standalone_mode=False)
    wanted = read_filter(given[0])
    assert set(wanted.texts) == {"one two", "three:four"} and wanted.values == {"status": "4xx"}


def test_a_search_for_a_rare_text_ends_and_goes_on(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how far it looked, and with which option the rest is looked at; with --all it comes to the end itself."""
    store = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=True)
    for number in range(12):
        write_drafts(store, draft(path="/needle" if number == 1 else "/hay"), seconds=1_000 + number)
    for name, value in (
        ("cli.audit.search.open_records", lambda config: nullcontext(store.reader())),
        ("cli.audit.search.signing_keys", lambda host: KEYS),
        ("cli.audit.search.MOST_LOOKS", 2),
        ("stores.record_look.LOOKED_INSIDE", 3),
    ):
        monkeypatch.setattr(f"agtphost.{name}", value)
    asked = ("audit", "search", "--offline", "text:needle")
    first = run(*asked)
    assert first.exit_code == 0 and "/needle" not in first.output, first.output
    assert "looked back to 1970-01-01T00:16:46Z, and older records may match: go on with --before 7" in first.output
    rest = run(*asked, "--before", "7")
    assert "/needle" in rest.output and "go on" not in rest.output, rest.output
    assert "/needle" in run(*asked, "--all").output
    assert "go on" not in run(*asked, "--before", "4", "-n", "1").output
    store.close()


def test_a_search_that_shows_the_newest_says_that_there_may_be_more(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for files and scripts, on standard error; not where the number was asked for, or all were found."""
    store = open_store(f"sqlite:{tmp_path / 'records.sqlite3'}", create=True)
    for number in range(30):
        write_drafts(store, draft(path="/hay" if number < 10 else "/straw"), seconds=1_000 + number)
    monkeypatch.setattr("agtphost.cli.audit.search.open_records", lambda config: nullcontext(store.reader()))
    monkeypatch.setattr("agtphost.cli.audit.search.signing_keys", lambda host: KEYS)
    asked = ("audit", "search", "--offline")
    said = "these are the newest 20, and older records may match: go on with --before 11, give -n, or --all for all"
    for words in ((), ("--csv",), ("--ids",), ("--json",)):
        done = run(*asked, *words)
        assert done.exit_code == 0 and said in done.stderr and said not in done.stdout, done.output
    for words in (("-n", "20"), ("--all",), ("path:/hay",)):
        assert "older records" not in run(*asked, *words).output
    store.close()
