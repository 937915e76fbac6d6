"""What an operator finds of a call afterwards, from outside: in the store, in the log, and by ``agtp explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.identity.jws import verify
from tests.system.hosting import Host, running, until
from tests.system.raw_link import Answer, RawLink
from tests.system.trail import keys, traced

HANDLER = """
from agtphost.handlers.context import EndpointError
from twisted.logger import Logger

log = Logger()


async def leave(ctx):
    log.info("a stay is wanted")
    if ctx.input["mark"] == "undeclared":
        raise EndpointError("no_bed")
    raise LookupError("the book of stays is gone")
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host, whose BOOK /stay fails."""
    config = traced(tmp_path_factory.mktemp("evidence"))
    (config.parent / "handlers" / "stays.py").write_text(HANDLER)
    with running(config) as started:
        yield started


def lines(host: Host, audit_id: str, words: str) -> list[str]:
    """What grep finds."""
    until(lambda: any(audit_id in line and words in line for line in host.lines))
    return [line for line in host.lines if audit_id in line and words in line]


def book(host: Host, mark: str) -> Answer:
    with RawLink(host) as link:
        return link.ask("BOOK", "/stay", {"mark": mark}, Task_ID="task-7")


def record(host: Host, answer: Answer) -> dict[str, Any]:
    return dict(verify(answer.record, keys(host)))


def test_a_500_is_found_in_the_log_by_its_audit_id(host: Host) -> None:
    """The line before the traceback, and the handler's own, have the answer's identifiers, the agent and the task."""
    answer = book(host, "crash")
    assert answer.status == 500
    caller = record(host, answer)["caller_id"]
    for words in ("the handler of BOOK /stay failed", "a stay is wanted"):
        [line] = lines(host, answer.audit_id, words)
        assert all(part in line for part in (answer.headers["response-id"], str(caller), "task-7"))
    at = host.lines.index(lines(host, answer.audit_id, "failed")[0])
    until(lambda: any("the book of stays is gone" in line for line in host.lines[at:]))
    assert "Traceback" in host.lines[at + 1]


def test_an_undeclared_error_tells_its_author(host: Host) -> None:
    """The log names endpoint, file and line, and what to add where."""
    answer = book(host, "undeclared")
    assert answer.status == 500 and "no_bed" not in answer.body.decode()
    [line] = lines(host, answer.audit_id, "no_bed")
    assert "BOOK /stay" in line and "stays.toml:" in line and "errors of the endpoint" in line


def test_a_certificate_of_one_and_the_name_of_another(host: Host) -> None:
    """AGTP-325: both identities and the true reason in the record, the address in the log, the story in explain."""
    other = "e" * 64
    with RawLink(host) as link:
        own = record(host, link.ask("QUERY", "/nowhere"))["caller_id"]
        answer = link.ask("DISCOVER", "/methods", Agent_ID=other)
    assert (answer.status, answer.reason) == (401, "agent-unauthenticated")
    extra = record(host, answer)["extra"]
    assert extra["cause"] == "agent-id-certificate-mismatch"
    assert (extra["claimed"]["agent_id"], extra["claimed"]["certificate_agent_id"]) == (other, own)
    [line] = lines(host, answer.audit_id, "127.0.0.1 was refused")
    assert other in line and str(own) in line
