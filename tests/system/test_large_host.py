"""A host with thousands of imported endpoints: how long it takes to start, list and export them, and with how much."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.programmes import CHOSEN, length, seed_of_chance
from tests.system.hosting import BIN, free_port

ENDPOINTS = length(100, 5_000)
VENDORS = length(2, 10)

SECONDS, MEGABYTES = 16.0, 400.0
"""Of processor time and of memory, that starting, listing and exporting may each take; held to with --programmes."""

CONFIG = """\
[host]
server_id = "localhost"
operator = "large"
contact = "root@localhost"
profile = "development"
state_dir = "state"
[listen]
address = "127.0.0.1"
port = {port}
[endpoints]
directory = "endpoints"
"""

WORDS = ("account", "invoice", "payment", "order", "node", "volume", "message", "user", "group", "project", "issue")


def schema(chance: random.Random, names: list[str], members: int) -> dict[str, Any]:
    """An object as public documents have them: prose, enumerations, lists, and references to others."""
    properties: dict[str, Any] = {}
    for number in range(members):
        name = f"{chance.choice(WORDS)}_{number}"
        kind = chance.randrange(6)
        if kind == 0:
            properties[name] = {"$ref": f"#/components/schemas/{chance.choice(names)}"}
        elif kind == 1:
            properties[name] = {"type": "array", "items": {"type": "string", "maxLength": 200}}
        elif kind == 2:
            properties[name] = {"type": "string", "enum": [f"{word}-{number}" for word in WORDS[:4]]}
        else:
            said = " ".join(chance.choice(WORDS) for _ in range(12))
            properties[name] = {"type": chance.choice(["string", "integer", "boolean"]), "description": said}
    return {"type": "object", "properties": properties}


def document(chance: random.Random, vendor: str, operations: int) -> dict[str, Any]:
    """An OpenAPI document of one vendor, whose operations share their answers."""
    # Each refers to others of its ten that come later: a public document's answers lead to a handful.
    names = [f"{vendor.title()}{number}" for number in range(150)]
    schemas = {
        name: schema(chance, names[at + 1 : at // 10 * 10 + 10] or names[:1], 14) for at, name in enumerate(names)
    }
    paths: dict[str, Any] = {}
    for number in range(operations):
        answer = {"$ref": f"#/components/schemas/{chance.choice(names[:110])}"}
        operation: dict[str, Any] = {
            "summary": f"Get the {chance.choice(WORDS)} {number}.",
            "parameters": [
                {"name": name, "in": "query", "description": " ".join(WORDS), "schema": {"type": "string"}}
                for name in ("limit", "after", "expand")
            ],
            "responses": {"200": {"description": "It.", "content": {"application/json": {"schema": answer}}}},
        }
        if number % 3:
            paths[f"/{chance.choice(WORDS)}s/{{id}}/part{number}"] = {
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "get": operation,
            }
        else:
            body = {"application/json": {"schema": schema(chance, names[:20], 10)}}
            paths[f"/new{number}"] = {"post": {**operation, "requestBody": {"content": body}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": vendor, "version": "1"},
        "servers": [{"url": f"https://localhost:9/{vendor}"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


class Taken:
    """What a process took: processor seconds, and its largest memory in megabytes."""

    def __init__(self, what: str, seconds: float, megabytes: float) -> None:
        self.what, self.seconds, self.megabytes = what, seconds, megabytes
        if CHOSEN.whole:
            print(f"{what}: {seconds:.1f} s of a processor, {megabytes:.0f} MB")

    def require(self) -> None:
        """At full length, the bounds hold."""
        if CHOSEN.whole:
            assert self.seconds <= SECONDS and self.megabytes <= MEGABYTES, vars(self)


def of_process(pid: int, what: str) -> Taken:
    """What a process that runs has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return Taken(what, (int(fields[11]) + int(fields[12])) / ticks, peak_of(Path(f"/proc/{pid}/status").read_text()))


def peak_of(status: str) -> float:
    """The largest memory in megabytes that a process's status in /proc tells."""
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    assert peak is not None
    return int(peak[1]) / 1024


MEASURED = """
import atexit, sys
from pathlib import Path
left = Path(sys.argv.pop())
atexit.register(lambda: left.write_text(Path("/proc/self/status").read_text()))
sys.argv[0] = "agtp"
from agtphost.cli import main
main()
"""
"""``agtp`` that leaves its status: what ``wait4`` returns begins with the memory of the process that started it."""


def command(config: Path, *words: str) -> tuple[str, Taken]:
    """
    Run ``agtp``; return what it printed, and what it took.

    At full length it has an interpreter of its own, whose processor time and memory are held to the bounds.
    """
    if not CHOSEN.whole:
        done = forking.run([BIN / "agtp", *words, "--config", config], cwd=config.parent)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout, Taken(" ".join(words[:2]), 0.0, 0.0)
    left = config.parent / "status.txt"
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED, *words, "--config", config, left],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=config.parent,
    )
    assert process.stdout is not None and process.stderr is not None
    printed = process.stdout.read()
    problems = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, problems[-2000:]
    return printed.decode(), Taken(" ".join(words[:2]), usage.ru_utime + usage.ru_stime, peak_of(left.read_text()))


@contextmanager
def started(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A host, ready; at full length in an interpreter of its own."""
    log = config.parent / "out.log"
    with log.open("wb") as stream:
        begin = subprocess.Popen if CHOSEN.whole else forking.start
        process = begin(
            [BIN / "twistd", "-n", "--pidfile=", "agtp", "--config", config],
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=config.parent,
        )
    try:
        while "agtphost ready" not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thousands_of_imported_endpoints_fit_a_host(tmp_path: Path) -> None:
    """
    Documents of several vendors, imported with a prefix each, are one host that its own commands read whole.

    Each endpoint is listed and exported exactly once, what they share is written once, and a call is still held to its
    schema. With --programmes starting, listing and exporting 5,000 take at most 16 seconds of a processor and 400 MB.
    """
    chance = random.Random(seed_of_chance())
    config = tmp_path / "host.toml"
    config.write_text(CONFIG.format(port=free_port()))
    endpoints = tmp_path / "endpoints"
    expected: set[tuple[str, str]] = set()
    for number in range(VENDORS):
        vendor = f"vendor{number}"
        source = tmp_path / f"{vendor}.json"
        source.write_text(json.dumps(document(chance, vendor, ENDPOINTS // VENDORS)))
        done = forking.run(
            [BIN / "agtp", "openapi", "import", source, "--out", tmp_path / vendor, "--prefix", vendor, "--json"],
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        said = json.loads(done.stdout)
        assert said["skipped"] == [] and said["definitions"] == f"{vendor}.definitions.json"
        expected |= {(each["method"], each["path"]) for each in said["endpoints"]}
        endpoints.mkdir(exist_ok=True)
        for file in (tmp_path / vendor).iterdir():
            name = file.name.removesuffix(".review")
            file.rename(endpoints / (name if name.startswith(vendor) else f"{vendor}-{name}"))
    assert len(expected) == ENDPOINTS and len(list(endpoints.glob("*.json"))) == VENDORS
    assert all(path.startswith("/vendor") for _, path in expected)
    texts = sum(file.stat().st_size for file in endpoints.iterdir())
    with started(config) as host:
        of_process(host.pid, "start").require()
        printed, listed = command(config, "manifest", "show", "-", "--json")
        found = json.loads(printed)
        shown = [(each["method"], each["path"]) for each in found["manifest"]["endpoints"] if each["tier"] == "B"]
        assert len(shown) == len(set(shown)) and set(shown) == expected and found["signature"] == "verified"
        # Definitions are written for each endpoint; of thousands it is more than one document has, and came in parts.
        assert texts < len(printed) / 2 and (len(printed) > 6 << 20 or not CHOSEN.whole)
        listed.require()
        _, exported = command(config, "openapi", "export", "-", "-o", str(tmp_path / "openapi.json"))
        exported.require()
        made = json.loads((tmp_path / "openapi.json").read_text())
        said = [each["x-agtp"] for item in made["paths"].values() for verb, each in item.items()]
        called = [
            (each["method"], each["path"]) for some in said for each in (some if isinstance(some, list) else [some])
        ]
        assert len(called) == len(set(called)) and set(called) == expected
        components = [name for name in made["components"]["schemas"] if "." in name]
        assert len(components) <= 150 * VENDORS
        method, path = next(each for each in sorted(expected) if "{" in each[1])
        for given, reason in (("limit=1", "[upstream_connection_error]"), ("limits=1", "[invalid-input]")):
            answered = forking.run(
                [BIN / "agtp", "call", "-", method, path.replace("{id}", "7"), given, "--config", config]
            )
            assert answered.returncode == 1 and reason in answered.stderr, answered
        of_process(host.pid, "host after all").require()
    _, local = command(config, "openapi", "export", "-o", str(tmp_path / "local.json"))
    local.require()
    assert len(json.loads((tmp_path / "local.json").read_text())["paths"]) == len(made["paths"])
