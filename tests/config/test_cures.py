"""What a fault of host.toml says to write is what mends it, and no value ends the reading of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import examine

HOST = '[host]\nserver_id = "here"\nprofile = "development"\n'
SERVER = '[[mcp.server]]\nname = "files"\ncommand = ["cat"]\n'
GRANT = '[[grant]]\nagent = "demo"\nallow = ["QUERY"]\n'


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("﻿" + HOST, 1, "(save it without a byte order mark)"),
        (HOST.replace("\n", "\r"), 1, "(save it with lines that end with LF, or with CRLF)"),
        (HOST.replace('"here"', '"here",'), 2, "(remove the comma at the end of this line)"),
        (HOST.replace("server_id", "server​_id"), 2, "(replace U+200B"),
        (HOST.replace('"here"', "“here”"), 2, "(replace U+201C"),
        (HOST.replace("[host]\n", ""), 1, '(give this host a stable name, such as server_id = "agents.example.com")'),
        (
            HOST.replace("[host]\n", ""),
            2,
            "profile is unknown (write [host] above it, where it belongs, or leave it out)",
        ),
        (HOST + "[approvals]\nttl = 5\n[metrics]\nuse_within = 9\n", 7, "(move it below [approvals], or leave it out)"),
        (HOST + "[policies.listen]\nport = 4480\n", 4, "(write [listen] above its members)"),
        (HOST + '[[host.grant]]\nagent = "a"\nallow = ["QUERY"]\n', 4, "(write [[grant]] above its members)"),
        (HOST + "[[audit]]\nsigning = true\n", 4, "(write [audit] in place of [[audit]])"),
        (HOST + SERVER.replace("[[mcp.server]]", "[mcp.server]"), 4, "(write [[mcp.server]] in place of [mcp.server])"),
        (HOST + GRANT.replace("[[grant]]", "[grant]") + GRANT, 7, "(write [[grant]] in line 4 too)"),
        (HOST + GRANT + GRANT.replace("[[grant]]", "[grant]"), 7, "(write [[grant]])"),
        (HOST + SERVER.replace('name = "files"\n', ""), 4, 'name is missing (write name = "...")'),
        (HOST + SERVER.replace('"files"', '"Files of mine"'), 5, "(correct name)"),
        (HOST + '[[methods.signing_key]]\nkey = "k.pem"\n', 4, 'name is missing (write name = "...")'),
        (HOST + f'[query]\ndocuments = "{"x" * 400}"\n', 5, "documents is longer than a path can be"),
        (HOST + 'state_dir = "~nobody-of-that-name/x"\n', 4, "begins with ~nobody-of-that-name, and no user here"),
        (HOST + f'state_dir = "{"x" * 400}"\n', 4, "state_dir is longer than a path can be"),
        (
            HOST + 'state_dir = "/"\n',
            4,
            'is the root of the file system (name a separate directory, such as "state")',
        ),
    ],
)
def test_each_fault_says_what_to_write(text: str, line: int, said: str, tmp_path: Path) -> None:
    """The cure is for the line that is named."""
    file = tmp_path / "host.toml"
    file.write_bytes(text.encode())
    found = _found(file)
    assert any(each.startswith(f"{file}:{line}: ") and said in each for each in found), found


def test_a_key_that_is_told_is_not_missed_as_well(tmp_path: Path) -> None:
    """What was taken out for its value is not called missing besides."""
    file = tmp_path / "host.toml"
    file.write_text(HOST + '[[policies.scope_dimensions]]\nname = "a"\nmethod = "x"\nparameter = "b"\nmaximum = 1\n')
    (problem,) = _found(file)
    assert "is not a method name" in problem


def _found(file: Path) -> list[str]:
    from agtphost.errors import ConfigurationError

    try:
        return [str(each) for each in examine(file, {}).problems]
    except ConfigurationError as error:
        return [str(each) for each in error.problems]
