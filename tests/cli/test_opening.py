"""The line that opens an MCP server to clients with a token, written into a ``host.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.cli.client.token_access import opened_text, write_opened
from agtphost.cli.failures import WrongInput
from agtphost.vocabulary import tomltext
from tests.rows import each_row

TWO = """# a note
[[mcp.server]]
name = "one" # the first
command = ["x"]
[[mcp.server]]
command = ["y"]
name = 'two'"""


@each_row("server, number", [("one", 0), ("two", 1)])
def test_the_line_is_added_and_nothing_else_changes(server: str, number: int) -> None:
    """Comments and the rest of the file stay; the one key is new, in the entry of that server."""
    text = opened_text(TWO, server)
    assert text is not None and text.startswith("# a note") and "# the first" in text
    wanted = tomltext.read(TWO).tree
    wanted["mcp"]["server"][number]["min_assurance"] = "gateway"
    assert tomltext.read(text).tree == wanted


@each_row(
    "text, server, where",
    [
        (TWO, "three", "into its [[mcp.server]]"),
        (TWO.replace("# the first", "\nmin_assurance = 'certificate'"), "one", "Line 4 has another min_assurance"),
        ("mcp = { server = [{ name = 'one', command = ['x'] }] }", "one", "into its [[mcp.server]]"),
        ("[mcp", "one", "into its [[mcp.server]]"),
        ("", "one", "into its [[mcp.server]]"),
    ],
)
def test_a_file_that_cannot_take_the_line_is_left_alone(text: str, server: str, where: str, tmp_path: Path) -> None:
    """What the operator has said of it is not overruled, and an entry of another form is not guessed at."""
    assert opened_text(text, server) is None
    file = tmp_path / "host.toml"
    file.write_text(text)
    with pytest.raises(WrongInput, match="cannot add a line") as caught:
        write_opened(file, server)
    assert "by hand" in caught.value.remedy and where in caught.value.remedy
    assert file.read_text() == text and list(tmp_path.iterdir()) == [file]


def test_the_file_as_it_was_is_kept(tmp_path: Path) -> None:
    """The backup lies beside the file and has its mode."""
    file = tmp_path / "host.toml"
    file.write_text(TWO)
    file.chmod(0o600)
    backup = write_opened(file, "two")
    assert backup.read_text() == TWO and file.read_text() != TWO
    assert {path.stat().st_mode & 0o777 for path in (file, backup)} == {0o600}
