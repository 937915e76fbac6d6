"""What a fault of host.toml says to write is what mends it, and no value ends the reading of the file."""

from __future__ import annotations

import contextlib
import re
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from agtphost.config import Config, examine
from agtphost.config.faults import models_of
from tests.programmes import length

HOST = '[host]\nserver_id = "here"\nprofile = "development"\n'
SERVER = '[[mcp.server]]\nname = "files"\ncommand = ["cat"]\n'
OPERATOR = '[[operator]]\nname = "a"\nrole = "{}"\n'
AGENT = '[[a2a.agent]]\nname = "t"\nurl = "{}"\n'
GRANT = '[[grant]]\nagent = "demo"\nallow = ["QUERY"]\n'


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("﻿" + HOST, 1, "(save it without a byte order mark)"),
        (HOST.replace("\n", "\r"), 1, "(save it with lines that end with LF, or with CRLF)"),
        (HOST.replace('"here"', '"here",'), 2, "(remove the comma at the end of this line)"),
        (HOST.replace("server_id", "server​_id"), 2, "(replace U+200B"),
        (HOST.replace('"here"', "“here”"), 2, "(replace U+201C"),
        (HOST.replace("[host]\n", ""), 1, "server_id is unknown (write [host] above it, where it belongs"),
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
        (HOST + SERVER.replace('name = "files"\n', ""), 4, 'name is missing (write name = "example")'),
        (HOST + SERVER.replace('"files"', '"Files of mine"'), 5, '(write name = "files-of-mine")'),
        (HOST + '[[methods.signing_key]]\nkey = "k.pem"\n', 4, 'name is missing (write name = "...")'),
        (HOST + SERVER.replace('["cat"]', '"cat"'), 6, "(write command = ["),
        (HOST + SERVER + 'args = ["-v"]\n', 7, "args is unknown (leave it out, and write the arguments into command"),
        (HOST + SERVER + 'env = ["A=b"]\n', 7, '(write env = { NAME = "value" }, or leave env out)'),
        (HOST + '[page]\nlisten = "tcp:1"\n', 4, "write [admin], the section of the operators' page: agtp docs page)"),
        (HOST + '[operators]\nanna = "anna.pem"\n', 4, "write [[operator]] for each person: agtp docs operators)"),
        (HOST + '[mcpServers.w]\ncommand = "npx"\n', 4, "agtp import FILE)"),
        (HOST + OPERATOR.format("admin"), 6, '(did you mean "administrator"?)'),
        (HOST.replace("development", "dev"), 3, '(did you mean "development"?)'),
        (HOST + AGENT.format("travel.example.com/a2a"), 6, '(write url = "https://travel.example.com/a2a")'),
        (HOST + AGENT.format("http://travel.example.com/a2a"), 6, '(write url = "https://travel.example.com/a2a")'),
        (HOST + '[identity]\nagents = "host.toml"\n', 5, "agents names a file, not a directory: "),
        (HOST + '[endpoints]\npython_path = ["src"]\n', 5, '(write python_path = ["."])'),
        (HOST + '[manifest]\ndomain = "https://a.example.com/x"\n', 5, '(write domain = "a.example.com")'),
        (HOST + '[registry]\n[[registry.provider]]\norigin = "a.example.com"\n', 6, '"https://a.example.com")'),
        (HOST + '[gateway]\norigins = ["https://a.example.com/"]\n', 5, '(write origins = ["https://a.example.com"])'),
        (HOST + '[profile.a]\nuri = "agtp://a"\n', 4, "(leave it out; profiles are in the client's own"),
        (HOST + '[[http.client]]\nname = "a"\nagent = "demo"\ntoken = "x"\n', 7, "set that variable for the host)"),
        (HOST + '[methods]\nstandard = ["CONFIRM", "SEARCH"]\n', 5, '(write standard = ["SEARCH"])'),
        (HOST + '[methods]\nstandard = ["FETCH", "SEARCHH"]\n', 5, '(write standard = ["FETCH", "SEARCH"])'),
        (HOST + '[methods]\nstandard = ["search"]\n', 5, '(write standard = ["SEARCH"])'),
        (HOST + '[policies.methods]\ncustom = ["reshelve"]\n', 5, '(write custom = ["RESHELVE"])'),
        (HOST + f'[query]\ndocuments = "{"x" * 400}"\n', 5, "documents is longer than a path can be"),
        (HOST + "[[http.client]]\nname = 'a'\ntoken = 'file:t'\n", 4, 'agent is missing (write agent = "demo")'),
        (HOST + "[[http.client]]\nname = 'a'\nagent_id = 'demo'\n", 6, 'agent_id is unknown (did you mean "agent"?)'),
        (HOST + AGENT.format("https://a.example") + "scopes = [1]\n", 7, "must be text, not 1 (write scopes = ["),
        (HOST + "[listen]\nport = 99999\n", 5, "at most 65535, not 99999 (leave port out for the default, 4480)"),
        (HOST + '[limits]\nbody = "1 MB"\n', 5, "(write body = 1048576)"),
        (HOST + "[listen]\nport = -1\n", 5, "at least 0, not -1 (leave port out for the default, 4480)"),
        (HOST + "[wellknown]\nport = 0\n", 5, "must be at least 1, not 0 (write port = 4480)"),
        (HOST + "[limits]\nheader_timeout = 99999\n", 5, "(write header_timeout = "),
        (
            HOST + 'state_dir = "~nobody-of-that-name/x"\n',
            4,
            "begins with ~nobody-of-that-name, but this machine has no user",
        ),
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


WRONG = ('""', '"x"', "-1", "true", "[]", "{}", '["x"]', "99999999999", "1.5")
ONLY_THE_OPERATOR_KNOWS = (
    "set the variable",
    "set that variable",
    "fetch ",
    "create ",
    "run: ",
    "key in base64url",
    "header",
)
"""Cures with something that no file can say."""

HIS_KEYS = {
    ("[[audit.witness_host]]", "uri"),
    ("[[delegation.peers]]", "cert"),
    ("[[delegation.peers]]", "key"),
    ("[[identity.anchor]]", "value"),
    ("[[merchant.platform]]", "jwks"),
    ("[[witness.logs]]", "key"),
}
"""Keys that name a file or a public key of somebody else, for which no value can be proposed."""


def _keys() -> list[tuple[str, str]]:
    """The keys of the tables of a file, to the second level, with the headers of their tables."""
    found: list[tuple[str, str]] = []
    for header, model in _tables("", Config):
        found += [
            (header, field.alias or name)
            for name, field in model.model_fields.items()
            if not any(models_of(field.annotation))
        ]
    return found


def _tables(before: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        inner = next(models_of(field.annotation), None)
        if inner is not None:
            path, listed = f"{before}{name}", typing.get_origin(field.annotation) is tuple
            yield (f"[[{path}]]" if listed else f"[{path}]"), inner
            if not before and not listed:
                yield from _tables(f"{path}.", inner)


@pytest.mark.programme
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_value_of_any_key_has_a_cure_that_works(wrong: str, tmp_path: Path) -> None:
    """What is to be written or left out is accepted in that line: each key in the suite, with each value elsewhere."""
    file = tmp_path / "host.toml"
    left: list[str] = []
    keys = [each for each in _keys() if each not in HIS_KEYS]
    for header, key in keys[WRONG.index(wrong) % length(len(WRONG), 1) :: length(len(WRONG), 1)]:
        text = HOST if header == "[host]" else f"{HOST}{header}\n"
        lines = [each for each in text.splitlines() if not each.startswith(f"{key} =")]
        file.write_text("\n".join([*lines, f"{key} = {wrong}"]) + "\n")
        here = f"{file}:{len(lines) + 1}: "
        told = next((each.removeprefix(here) for each in _found(file) if each.startswith(here)), "")
        cure = told.rpartition(" (")[2].removesuffix(")")
        if not told or "write [" in cure or any(part in told for part in ONLY_THE_OPERATOR_KNOWS):
            continue
        typed = _line_of(cure, key)
        if typed is None:
            left.append(f"nothing to type: {header} {told}")
            continue
        file.write_text("\n".join([*lines, typed]) + "\n")
        left += [f"{header} {told} then {each}" for each in _found(file) if each.startswith(here)]
    assert not left, "\n".join(left)


def _line_of(cure: str, key: str) -> str | None:
    """Return the line that a cure says to write; None if it says nothing."""
    meant = re.search(r'did you mean (".+")\?$', cure)
    if meant is not None:
        return f"{key} = {meant[1]}"
    written = re.search(rf"\b(?:write|such as) {re.escape(key)} = (.+)", cure)
    for end in range(len(written[1]) if written is not None else 0, 0, -1):
        assert written is not None
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(f"a = {written[1][:end]}")
            return f"{key} = {written[1][:end]}"
    return (
        ""
        if re.search(rf"leave {re.escape(key)} out|leave certificate and key out|remove (?:it|this line)", cure)
        else None
    )
