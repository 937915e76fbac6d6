"""Words for a shell's completion, from a host's own files."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from agtphost.cli import root
from agtphost.cli.completion_sources import VARIABLE, _Here, _tools

CERTIFICATES = """
[host]
server_id = "agents.example.com"

[tls]
certificate = "server.pem"

[[tls.server]]
name = "old.example.com"
certificate = "old.pem"

[gateway]
listen = "ssl:8443"
certificate = "gateway.pem"

[metrics]
listen = "tcp:9100"

[mcp.front]
listen = "ssl:8444"
certificate = "mcp.pem"
"""


def context_of(folder: Path, url: str) -> click.Context:
    """A command whose `--config` names a host.toml with that store and one server."""
    file = folder / "host.toml"
    server = '[[mcp.server]]\nname = "files"\ncommand = ["server"]\n\n[mcp.server.tools.read_file]\nscopes = []\n'
    file.write_text(f'[store]\nurl = "{url}"\n\n{server}')
    context = click.Context(click.Command("any"))
    context.params["config"] = str(file)
    return context


@pytest.mark.parametrize(
    ("url", "expected"),
    [("sqlite:", "state/agtphost.sqlite3"), ("sqlite:kept/records.sqlite3", "kept/records.sqlite3")],
)
def test_the_store_is_the_one_that_the_configuration_names(tmp_path: Path, url: str, expected: str) -> None:
    assert _Here(context_of(tmp_path, url)).store == tmp_path / expected


def test_tools_of_the_configuration_complete_where_the_store_is_no_file(tmp_path: Path) -> None:
    context = context_of(tmp_path, "postgresql://agtp@db.example.com/agtp")
    assert list(_tools(context, "files.")) == [("files.read_file", "tool")]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (("upstream", "remove"), "", ["mcp.files", "files"]),
        (("upstream", "remove"), "f", ["files"]),
        (("upstream", "add"), "", []),
        (("cert", "renew"), "", ["agents.example.com", "old.example.com", "gateway", "mcp"]),
        (("cert", "renew"), "ga", ["gateway"]),
        (("docs",), "operat", ["operations", "operators"]),
    ],
)
def test_arguments_whose_metavar_names_no_kind_are_completed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    incomplete: str,
    expected: list[str],
) -> None:
    """An upstream and a certificate are named as in host.toml, and a page of the documentation by its file's name."""
    file = str(context_of(tmp_path, "sqlite:").params["config"])
    Path(file).write_text(f"{CERTIFICATES}\n{Path(file).read_text()}")
    monkeypatch.setenv(VARIABLE, "bash_complete")
    asked = ShellComplete(root.agtp, {}, "agtp", VARIABLE)
    given = [*words, *([] if words[0] == "docs" else ["--config", file])]
    assert [item.value for item in asked.get_completions(given, incomplete)] == expected
