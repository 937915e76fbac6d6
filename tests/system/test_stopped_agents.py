"""An agent is stopped while its connections are open and its calls run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.programmes import length
from tests.system.hosting import Host, running, sample, until
from tests.system.raw_link import Answer, RawLink, client_context, request

WITHIN = length(10.0, 1.0)
"""Seconds in which a stop takes effect: one is promised, and measured on a quiet machine (`--programmes`)."""
CONNECTIONS = 200
SLOW = 20
"""Connections with a call that runs."""

SECONDS = 30.0
"""How long such a call takes if nobody ends it."""

_ENDPOINT = """
method = "BOOK"
path = "/slowly"
description = "Changes something, after a while."
namespace = "samples"
errors = []
required_scopes = ["booking:room"]

[handler]
type = "registered_function"
function = "handlers.slowly.wait"

[semantic]
intent = "Wait."
actor = "agent"
outcome = "Time has passed."
capability = "transaction"
confidence = 1.0
impact = "irreversible"
is_idempotent = false

[input_schema]
type = "object"
additionalProperties = false
required = ["seconds"]

[input_schema.properties]
seconds = { type = "number", minimum = 0 }

[output_schema]
type = "object"
additionalProperties = true
"""

_HANDLER = """
from pathlib import Path

from twisted.internet import task

BEGUN = Path(__file__).with_name("begun")


async def wait(ctx):
    from twisted.internet import reactor

    with BEGUN.open("a") as file:
        file.write("x")
    await task.deferLater(reactor, ctx.input["seconds"])
    return {"waited": ctx.input["seconds"]}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample with an endpoint that takes its time, and changes the world."""
    config = sample(tmp_path_factory.mktemp("stopped"))
    (config.parent / "endpoints" / "slowly.toml").write_text(_ENDPOINT)
    (config.parent / "handlers" / "slowly.py").write_text(_HANDLER)
    with running(config) as host:
        yield host


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("deactivate", "demo", "--reason", "drill"), 503, "agent-suspended"),
        (("revoke", "demo", "--reason", "compromise-detected"), 410, "agent-retired"),
    ],
)
def test_every_connection_and_every_running_call_ends_within_a_second(
    host: Host, words: tuple[str, ...], status: int, reason: str
) -> None:
    """T-LC-70, AGTP-233, AGTP-235: 200 open connections, 20 of them with a call that runs; all sealed and verified."""
    context = client_context(host)
    with ExitStack() as stack:
        links = [stack.enter_context(RawLink(host, context=context)) for _ in range(CONNECTIONS)]
        begun = time.monotonic()
        assert {link.ask("ECHO", "/text", {"text": "before"}).status for link in links} == {200}
        # Two hundred answers take their time on a machine that has other things to do.
        within = WITHIN + 2 * (time.monotonic() - begun)
        assert links[-1].ask("ECHO", "/text", {"text": "x"}, Session_ID=f"of-{words[0]}").status == 200
        slow, idle = links[:SLOW], links[SLOW:]
        ended: list[tuple[float, Answer | None]] = []
        threads = [threading.Thread(target=_timed, args=(link, ended), daemon=True) for link in slow]
        for thread in threads:
            thread.start()
        begun_calls = host.config.parent / "handlers" / "begun"
        until(lambda: begun_calls.exists() and begun_calls.stat().st_size >= SLOW)
        begun_calls.unlink()
        host.agtp_json("agent", *words)
        changed = time.monotonic()
        answers = [link.ask("ECHO", "/text", {"text": "after"}) for link in idle]
        assert time.monotonic() - changed < within
        for thread in threads:
            thread.join(60)
    assert {(answer.status, answer.reason) for answer in answers} == {(status, reason)}
    assert len(ended) == SLOW
    for at, answer in ended:
        assert at - changed < within
        assert answer is not None and (answer.status, answer.reason) == (status, reason)
    assert host.agtp("audit", "verify").returncode == 0
    if status == 503:
        assert host.agtp("agent", "reinstate", "demo").returncode == 0
        with RawLink(host, context=context) as link:
            refused = link.ask("ECHO", "/text", {"text": "x"}, Session_ID=f"of-{words[0]}")
            assert (refused.status, refused.reason) == (401, "session-ended")
            assert link.ask("ECHO", "/text", {"text": "x"}, Session_ID="another").status == 200


def _timed(link: RawLink, ended: list[tuple[float, Answer | None]]) -> None:
    link.send(request("BOOK", "/slowly", {"seconds": SECONDS}))
    answer = link.answer()
    ended.append((time.monotonic(), answer))
