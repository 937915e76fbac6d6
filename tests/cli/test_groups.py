"""Verbs that all groups share, ``--config`` in front of a command, suggestions, and arguments by schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from agtphost.cli.arguments import fit_to_schema, may_be_typed
from agtphost.cli.groups import SHARED_VERBS, VerbGroup
from agtphost.cli.root import COMMANDS, SECTIONS, agtp
from tests.cli.conftest import Run


def _groups() -> dict[str, click.Group]:
    context = click.Context(agtp)
    found = {name: agtp.get_command(context, name) for name in COMMANDS}
    return {name: command for name, command in found.items() if isinstance(command, click.Group)}


def test_every_group_knows_the_shared_verbs() -> None:
    """Where a group can list, create or show, these words and the older ones name the same command."""
    for name, group in _groups().items():
        assert isinstance(group, VerbGroup), name
        context = click.Context(group)
        for older, verb in (("ls", "list"), ("new", "create"), ("issue", "create"), ("get", "show")):
            if older in group.commands and not set(SHARED_VERBS[verb]) & (set(group.commands) - {older}):
                assert group.get_command(context, verb) is group.commands[older], (name, verb)
        if "list" in group.commands:
            assert group.get_command(context, "ls") is group.commands["list"], name


def test_help_shows_both_names(run: Run) -> None:
    """A reader of an older page finds the name of that page in the help."""
    assert "list, ls" in run("tools", "--help").stdout
    assert "create, new" in run("agent", "--help").stdout


def test_help_has_five_sections(run: Run) -> None:
    """Each command is in one of them."""
    shown = run("--help").stdout
    assert len(SECTIONS) == 5
    places = [shown.index(f"\n{title}:") for title in SECTIONS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("statsu",), "Did you mean status"),
        (("tools", "lst"), "list"),
        (("agent", "creat"), "create"),
        (("verify",), "audit verify"),
        (("tools", "ls", "--jsn"), "--json"),
        (("tools", "ls", "--josn"), "--json"),
        (("agent", "delete", "demo"), "Did you mean revoke or deactivate"),
        (("upstream", "rm", "x"), "Did you mean remove?"),
        (("audit", "find"), "Did you mean search?"),
        (("approvals", "deny", "x"), "Did you mean reject?"),
        (("docs", "operatrs"), "Did you mean operators"),
        (("tools", "call", "--data", "x"), "`agtp tools call --help` lists them"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(run: Run, words: tuple[str, ...], suggested: str) -> None:
    """At every level: commands, commands of groups, and options."""
    result = run(*words)
    assert result.exit_code == 2
    assert suggested in result.stderr, result.stderr


def test_a_command_that_takes_no_configuration_says_so(run: Run) -> None:
    """A ``--config`` in front of a command that has none is not ignored."""
    result = run("--config", "host.toml", "docs")
    assert result.exit_code == 2 and "--config does not apply to agtp docs" in result.stderr


WITHOUT_HOST_FILE = """
up, init, restore, docs, completion
client disconnect, client ls
delegation issue, delegation show, genesis issue, genesis verify, document sign, document verify
key new, key show, cert issue, cert show
openapi import, agis fmt, agis from-openapi, agis import, agis schema, agis to-mcp, agis to-openapi, agis validate
catalog diff, catalog fetch, catalog pin
"""
"""The commands that read no ``host.toml``, or make one."""


def _commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        else:
            yield (*words, name), command


def test_each_command_that_reads_a_host_file_takes_it_as_an_option() -> None:
    """Only the commands that read no ``host.toml`` have no ``--config``."""
    without = {
        " ".join(words)
        for words, command in _commands(agtp)
        if not any("--config" in each.opts for each in command.params)
    }
    assert without == {each.strip() for line in WITHOUT_HOST_FILE.split("\n") for each in line.split(",")} - {""}


def test_a_host_file_is_taken_before_and_after_each_command(run: Run) -> None:
    """Parsing ends at the same values, wherever ``--config`` stands; an equal argument beside it is no second file."""
    for words, command in _commands(agtp):
        options = [each for each in command.params if "--config" in each.opts]
        if not options:
            continue
        for at in range(len(words) + 1):
            result = run(*words[:at], "--config", "absent/host.toml", *words[at:])
            wrong = ("does not apply", "No such option", "two host.toml", "unexpected extra argument")
            assert not any(each in result.stderr for each in wrong), (words, at, result.stderr)


@pytest.mark.parametrize("word", ["check", "run", "wellknown"])
def test_two_host_files_are_refused(run: Run, word: str) -> None:
    """One is meant, and it is not known which."""
    result = run(word, "one.toml", "--config", "two.toml")
    assert result.exit_code == 2 and "two host.toml are named" in result.stderr


SCHEMA: dict[str, Any] = {
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "yes": {"type": "boolean"},
        "list": {"type": "array"},
        "text": {"type": "string"},
        "either": {"type": ["string", "null"]},
        "maybe": {"type": ["integer", "null"]},
        "any": {},
    }
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "1", 1),
        ("n", "1.5", "1.5"),
        ("n", "01", "01"),
        ("n", "true", "true"),
        ("x", "1e3", 1000.0),
        ("yes", "true", True),
        ("yes", "yes", "yes"),
        ("list", "[1]", [1]),
        ("list", "[1", "[1"),
        ("text", "1", "1"),
        ("either", "null", "null"),
        ("maybe", "null", None),
        ("any", "1", "1"),
        ("unknown", "1", "1"),
    ],
)
def test_text_is_read_as_the_schema_asks(name: str, text: str, value: Any) -> None:
    """Only a text of the right form becomes another value; the host refuses the rest by name."""
    assert fit_to_schema({name: text}, SCHEMA, {name}) == {name: value}
    assert fit_to_schema({name: text}, SCHEMA, set()) == {name: text}, "values after := stay"


def test_texts_that_can_be_no_other_value_need_no_schema() -> None:
    """The host's list is asked for only if a text could be another value."""
    words = ("a=oslo", "b=3", "c:=3", "d=true", "e=truest", "f=[1]")
    assert may_be_typed(words) == {"b", "d", "f"}
