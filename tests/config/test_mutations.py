"""T-RE-1: a configuration that was damaged in any way is refused completely, and never crashes the reader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from agtphost.config import load
from agtphost.errors import ConfigurationError

SAMPLE = """\
[host]
server_id = "agents.example.com"
operator = "Example"
contact = "ops@example.com"
profile = "development"
state_dir = "state"
[listen]
address = "127.0.0.1"
port = 4480
[tls]
client_auth = "required"
[wire]
strict_request_line = true
[limits]
request_line = 4096
header_line = 4096
header_block = 16384
header_count = 50
body = 65536
handshake_timeout = 5
idle_timeout = 60.0
connections = 100
connections_per_address = 10
exempt_addresses = ["10.0.0.0/8"]
output_high_water = 32768
[store]
url = "sqlite:records.sqlite3"
free_space_floor = 1000000
[audit]
signing = true
read_acl = "agent_only"
operators = ["0000000000000000000000000000000000000000000000000000000000000000"]
[lifecycle]
auth = "genesis_issuer"
[identity]
agents = "."
trusted_issuers = ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"]
[endpoints]
directory = "endpoints"
on_error = "skip"
python_path = ["."]
[policies]
wildcards_accepted = false
anonymous_discovery = true
agent_disclosure = "public"
max_synthesis_depth = 5
[policies.methods]
allow = ["BOOK"]
disallow = ["TRANSFER"]
legacy = ["GET"]
[[policies.methods.redirects]]
from_method = "BOOK"
to_method = "RESERVE"
to_path = "/room"
[[mcp.server]]
name = "files"
command = ["{python}", "server.py"]
timeout = 30
max_concurrency = 4
start = "lazy"
protocol = "auto"
scopes = ["mcp:tools:execute"]
[mcp.server.tools.read]
impact = "informational"
min_assurance = "header"
enabled = true
[[mcp.server]]
name = "web"
url = "https://mcp.example/"
bearer = "env:TOKEN"
"""

LINES = SAMPLE.splitlines()
ENVIRON = {"TOKEN": "canary", "PATH": "/usr/bin"}
WRONG_VALUES = ("{}", "[[]]", "1979-05-27", "nan", "-1", "[{ a = 1 }]", "-0.5")


def damaged() -> Iterator[tuple[str, int, str]]:
    """Mutations that no reading can excuse: ``(what, line, text)``."""
    for index, line in enumerate(LINES):
        key, separator, _ = line.partition(" = ")
        if separator:
            yield f"{key} misspelled", index + 1, _with(index, line.replace(key, f"{key}x", 1))
            yield f"{key} upper-case", index + 1, _with(index, line.replace(key, key.upper(), 1))
            for wrong in WRONG_VALUES:
                yield f"{key} = {wrong}", index + 1, _with(index, f"{key} = {wrong}")
            yield f"{key} without value", index + 1, _with(index, f"{key} =")
            yield f"{key} twice", index + 2, _with(index, f"{line}\n{line}")
        else:
            name = line.strip("[]")
            # Without its server, the table of tools would be what is wrong, further down.
            if not name.startswith("mcp.server.tools") and index != LINES.index("[[mcp.server]]"):
                renamed = line.replace(name.split(".")[-1], name.split(".")[-1] + "x")
                yield f"{line} misspelled", index + 1, _with(index, renamed)
            yield f"{line} unclosed", index + 1, _with(index, line[:-1])


def _with(index: int, line: str) -> str:
    return "\n".join([*LINES[:index], line, *LINES[index + 1 :]]) + "\n"


DAMAGED = list(damaged())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "endpoints").mkdir()
    return tmp_path / "host.toml"


def test_the_sample_is_sound(place: Path) -> None:
    """The control: undamaged, it loads; so each refusal below is for its mutation."""
    place.write_text(SAMPLE)
    assert len(load(place, ENVIRON).mcp.server) == 2


def test_every_damaged_configuration_is_refused_at_its_line(place: Path) -> None:
    """More than 500 mutations: none is adopted, each is reported at the damaged line, no secret shows."""
    assert len(DAMAGED) >= 500
    unlocated = []
    for what, line, text in DAMAGED:
        place.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            load(place, ENVIRON)
            pytest.fail(f"adopted: {what}")
        problems = caught.value.problems
        assert all(problem.file == str(place) and problem.line for problem in problems), what
        assert "canary" not in str(caught.value)
        if line not in {problem.line for problem in problems}:
            unlocated.append((what, line, [str(problem) for problem in problems]))
    assert unlocated == []


def test_random_damage_never_crashes_the_reader(place: Path) -> None:
    """Octets cut, doubled, exchanged: a configuration or a complete refusal, nothing else."""
    chance = random.Random(4480)
    octets = SAMPLE.encode()
    refused = 0
    for _ in range(500):
        mutated = bytearray(octets)
        for _ in range(chance.randint(1, 3)):
            start = chance.randrange(len(mutated))
            match chance.randrange(4):
                case 0:
                    del mutated[start : start + chance.randint(1, 40)]
                case 1:
                    mutated[start:start] = mutated[start : start + 40]
                case 2:
                    mutated[start] = chance.randrange(256)
                case _:
                    mutated[start:start] = chance.choice([b"[", b"]", b'"', b"=", b"{", b"\n", b"\0", b"'", b"."])
        place.write_bytes(bytes(mutated))
        try:
            load(place, ENVIRON)
        except ConfigurationError as error:
            refused += 1
            assert all(problem.file == str(place) and problem.line for problem in error.problems)
    assert refused > 250
