"""A host with every fault behind it: one upstream for each fault and carrier, all played by one program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.adapters.faults import http_scripts, scripts
from tests.adapters.faults.registry import CARRIERS, FAULTS, Fault
from tests.programmes import length
from tests.protocols.authorities import DAY, Identity, issue, now

assert http_scripts and scripts

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (sys.executable, "-m", "tests.adapters.faults.program")

DEADLINE = 2.5
"""Seconds that each call may take."""

TIMED = length(1.5, DEADLINE)
"""The same where nothing but the deadline ends the call, however busy the machine is."""

PATIENCE = 4 * DEADLINE
"""The same where a bound of size ends it, which a busy machine reaches later."""

START = 0.8
"""The same for upstreams that never get up."""


class Case(NamedTuple):
    """One fault over one carrier."""

    fault: Fault
    letter: str
    number: int

    @property
    def carrier(self) -> str:
        return CARRIERS[self.letter]

    @property
    def name(self) -> str:
        """Of the upstream."""
        return f"{self.letter.lower()}{self.number}"

    @property
    def id(self) -> str:
        return f"{self.carrier}-{self.fault.name}"

    @property
    def deadline(self) -> float:
        """Seconds that the call may take."""
        timed = any(answer.endswith("-timeout") for answer in self.fault.answers[self.letter])
        return TIMED if timed else PATIENCE if self.fault.heavy else DEADLINE


CASES = tuple(Case(fault, letter, number) for number, fault in enumerate(FAULTS.values()) for letter in fault.carriers)


def _certificates(folder: Path) -> Path:
    """What the program shows, and the authority that the host trusts."""
    root, server = issue(name="upstream root", authority=True), ExtendedKeyUsageOID.SERVER_AUTH
    other = x509.SubjectAlternativeName([x509.DNSName("other.example")])
    shown = {
        "good": issue(root, usage=server),
        "expired": issue(root, usage=server, start=now() - 3 * DAY, end=now() - DAY),
        "stranger": issue(usage=server),
        "misnamed": issue(root, usage=None, extensions=[(other, False)]),
    }
    for name, identity in shown.items():
        _write(folder / f"{name}.pem", identity)
    (folder / "root.pem").write_bytes(root.pem())
    return folder / "root.pem"


def _write(file: Path, identity: Identity) -> None:
    file.write_bytes(identity.pem() + identity.key_pem())


@contextmanager
def upstreams(folder: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """The program over HTTP: its process, and its ports by name; ended afterwards."""
    folder.mkdir()
    _certificates(folder)
    command = [*PROGRAM, "http", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as program:
        assert program.stdout is not None
        try:
            yield program.pid, json.loads(program.stdout.readline())
        finally:
            program.kill()


ENDPOINT = """
method = "QUERY"
path = "/faults/{name}"
description = "Asks an upstream that misbehaves."
namespace = "faults"
required_scopes = ["documents:query"]
errors = [
  "upstream_timeout", "upstream_connection_error", "upstream_malformed_response",
  "upstream_authentication_failed", "upstream_error",
]

[handler]
type = "external_service"
url = "{url}"
method = "POST"
ca = "{folder}/root.pem"
allow_addresses = ["127.0.0.1"]
timeout_seconds = {deadline}
max_response = 4000000

[semantic]
intent = "Ask an upstream that misbehaves."
actor = "agent"
outcome = "The caller knows how it misbehaved."
capability = "discovery"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false

[output_schema]
type = "object"
"""


def configuration(cases: Iterable[Case], ports: dict[str, int], folder: Path) -> str:
    """What is appended to ``host.toml``."""
    return "".join(_upstream(case, ports, folder) for case in cases if case.letter != "S")


def endpoints(cases: Iterable[Case], ports: dict[str, int], folder: Path) -> dict[str, str]:
    """Declarations of external services, by file name."""
    return {
        f"{case.name}.toml": ENDPOINT.format(
            name=case.name, url=_url(case, ports), folder=folder, deadline=case.deadline
        )
        for case in cases
        if case.letter == "S"
    }


def _url(case: Case, ports: dict[str, int]) -> str:
    port, secure = ports["plain"], ""
    if case.fault.port or case.letter == "S":
        port, secure = ports[case.fault.port or "good"], "s"
    return f"http{secure}://127.0.0.1:{port}/{case.carrier}/{case.fault.name}"


def _upstream(case: Case, ports: dict[str, int], folder: Path) -> str:
    fault, deadline = case.fault, case.deadline
    lines = [f'name = "{case.name}"', 'scopes = ["mcp:tools:execute"]', f"timeout = {deadline}", 'start = "lazy"']
    if fault.early:
        lines.append(f"start_timeout = {min(START, deadline)}")
    if fault.settings and case.letter in "PH":
        lines.append(fault.settings)
    if case.letter == "P":
        # Dozens of servers that hang do not read either; all of them restarted beside honest callers is another test.
        lines.append("input_timeout = 600")
        words = [*PROGRAM[1:], "stdio", fault.name]
        lines += [f"command = {json.dumps(['{python}', *words])}", f'cwd = "{ROOT}"']
    else:
        lines.append(f'url = "{_url(case, ports)}"')
        if fault.port:
            lines.append(f'ca = "{folder}/root.pem"')
    if case.letter in "PH":
        lines.append('protocol = "2025-11-25"')
    table = {"A": "a2a.agent", "C": "acp.agent"}.get(case.letter, "mcp.server")
    return "\n".join(["", f"[[{table}]]", *lines, ""])


def request(case: Case, tool: str = "work") -> tuple[str, str, dict[str, object]]:
    """Method, path and body of the call that makes the fault play."""
    if case.letter == "S":
        return "QUERY", f"/faults/{case.name}", {}
    kind, action, payload = _PAYLOADS[case.letter]
    if case.letter in "PH":
        payload = {"tool": tool, "arguments": {}}
    given = {"action": action, "payload_type": kind, "payload": payload}
    path = f"/{ {'A': 'a2a', 'C': 'acp'}.get(case.letter, 'mcp') }/{case.name}"
    body: dict[str, object] = {"method": "EXECUTE", "parameters": given}
    if case.fault.streamed and case.letter in "AC":
        body["context"] = {"stream": True}
    return "EXECUTE", path, body


_TOOL = ("application/vnd.mcp.tools+json", "mcp.tools.call", {})
_PAYLOADS: dict[str, tuple[str, str, dict[str, object]]] = {
    "P": _TOOL,
    "H": _TOOL,
    "A": ("application/a2a+json", "a2a.message.send", {"message": {"parts": [{"text": "hello"}]}}),
    "C": ("application/vnd.acp.run+json", "acp.runs.create", {"input": [{"parts": [{"content": "x"}]}]}),
}
