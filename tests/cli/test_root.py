"""The command as a whole: help, exit statuses, laziness, completion."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agtphost.cli.options import HOST_TOML
from agtphost.cli.root import COMMANDS, agtp
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.rows import each_row


def every_command() -> list[tuple[str, ...]]:
    """The words of every command, groups included."""
    found: list[tuple[str, ...]] = []

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        found.append(words)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(inner, (*words, name))

    walk(agtp, ())
    return found


@each_row("words", every_command, " ".join)
def test_every_command_explains_itself(run: Run, words: tuple[str, ...]) -> None:
    """Help exits 0, describes every option, and shows an example where something can be called."""
    result = run(*words, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage: agtp" in result.stdout
    if "Commands:" not in result.stdout and words:
        assert "Example" in result.stdout
        assert "--json" in result.stdout or words == ("mcp-bridge",), "a server prints nothing of its own"


SHAPELESS = {"INTEGER", "FLOAT", "TEXT", "RANGE"}
"""Words that Click shows for a value whose option says nothing of its shape."""


def option_faults(option: click.Option, context: click.Context) -> list[str]:
    """What a reader misses in the help of an option: a subject, a unit or shape, a whole sentence."""
    text, name = option.help or "", max(option.opts, key=len)
    faults = []
    if not text.endswith(".") or text.startswith(("Default", "Its ", "Seconds")):
        faults.append(f"{name}: {text!r} has no subject")
    shapeless = option.metavar is None and not option.is_flag and set(option.make_metavar(context).split()) & SHAPELESS
    if shapeless:
        faults.append(f"{name}: {option.make_metavar(context)} is no unit or shape")
    return faults


@each_row("words", every_command, " ".join)
def test_every_option_has_a_subject_and_a_shape(words: tuple[str, ...]) -> None:
    """A reader of help learns what an option is about, and what its value looks like."""
    command: click.Command = agtp
    context = click.Context(command)
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(context, word) or command
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [fault for option in options for fault in option_faults(option, context)] == []


def test_the_rules_of_help_have_a_control() -> None:
    """Options as they once were are noticed."""
    context = click.Context(agtp)
    bad = [
        click.Option(["--wait"], type=click.IntRange(0, 600), metavar="SECONDS"),
        click.Option(["--timeout"], type=click.FloatRange(0.1), help="How long to wait."),
        click.Option(["--key"], metavar="FILE", help="Its key; default: the .key file."),
        click.Option(["--to"], metavar="FORM", help="Default: yaml."),
    ]
    assert [len(option_faults(option, context)) for option in bad] == [1, 1, 1, 1]


@each_row("words", every_command, " ".join)
def test_no_help_text_is_cut(run: Run, words: tuple[str, ...]) -> None:
    """Summaries of commands fit on their lines."""
    shown = run(*words, "--help").stdout
    assert re.search(r"\w\. [a-z]+\.\s", shown) is None, "a remnant of an earlier sentence"
    listed = shown.partition("Commands:")[2] if words else shown.partition("Options:")[2]
    assert "..." not in listed


def test_a_host_is_named_by_its_directory_too() -> None:
    """Wherever ``--config`` names a host: whoever made one with ``agtp up work`` says ``--config work``."""
    for words in every_command():
        command: click.Command = agtp
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word) or command
        for option in command.params:
            assert "--config" not in option.opts or option.type is HOST_TOML, words


def test_the_table_of_commands_matches_the_modules() -> None:
    """Each summary of the lazy group belongs to a module with a command."""
    context = click.Context(agtp)
    assert agtp.list_commands(context) == list(COMMANDS)
    assert all(agtp.get_command(context, name) is not None for name in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("call",),
        ("call", "-"),
        ("tools", "nonsense"),
        ("agent", "revoke", "demo"),
        ("key", "new"),
        ("cert", "issue", "nonsense", "x", "-o", "y"),
        ("completion", "powershell"),
        ("tools", "ls", "--insecure"),
        ("call", "-", "DISCOVER", "--timeout", "0"),
        ("call", "-", "DISCOVER", "--timeout", "soon"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2(run: Run, words: tuple[str, ...]) -> None:
    """Interface section 2; and ``--insecure`` does not exist."""
    result = run(*words)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert result.stdout == ""


def test_version(run: Run) -> None:
    """The package's own version."""
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("agtphost 0.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    """Each script asks this program through the variable that it reads."""
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_AGTP_COMPLETE={shell}_complete" in result.stdout


def test_completion_completes() -> None:
    """The protocol that those scripts speak, through the entry point."""
    done = subprocess.run(
        [sys.executable, "-c", "from agtphost.cli import main; main()"],
        env={
            "_AGTP_COMPLETE": "bash_complete",
            "COMP_WORDS": "agtp age",
            "COMP_CWORD": "1",
            "PATH": "/usr/bin",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["plain,agent"]


def test_help_imports_no_command() -> None:
    """``agtp --help`` loads neither Twisted nor cryptography nor pydantic: it answers at once."""
    program = (
        "import sys\nfrom agtphost.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = ('twisted.internet.reactor', 'cryptography', 'pydantic', 'rich', 'agtphost.cli.call')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_list_of_tools_imports_few_modules(server: AgtpServer, folder: Path) -> None:
    """
    ``agtp tools ls`` takes 0.25 s of a processor, nine tenths for imports: their number is bounded, as time varies.

    The second call has read ``host.toml`` before, so it needs no pydantic.
    """
    server.answers["DISCOVER", "/tools"] = Answer([{"name": "files.read_file"}])
    program = (
        "import sys\nfrom agtphost.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program, "tools", "ls"], capture_output=True, text=True, check=True, timeout=120
        )
    listed, *_, modules = done.stdout.splitlines()
    assert listed.startswith("TOOL"), done
    found = set(modules.split())
    heavy = {"asyncio", "http.client", "importlib.resources", "pydantic", "rich", "twisted", "zipfile"}
    assert not heavy & found, heavy & found
    assert sum(name.startswith("agtphost.") for name in found) <= 111
    # Of the interpreter, Click, cryptography and service-identity: 250, which differs a little by their versions.
    assert len(found) <= 390
