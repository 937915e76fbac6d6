"""Large answers that nobody reads: what waits for such peers, one and hundreds of them."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import addresses
from tests.system.raw_link import RawLink, client_context, request

LARGE = 4 * MIB
"""Octets of an answer; the system keeps some for a peer with a small window, and the host the rest."""

PATIENCE = 10.0
"""Seconds for an answer to begin."""

HANDLER = f'''
"""ECHO /large: a long text."""


def large(ctx):
    return {{"text": "x" * {LARGE}, "words": 1}}
'''


FLOWING = '''
"""ECHO /flow: a stream of 8 MiB."""


async def flow(ctx):
    for number in range(64):
        await ctx.emit({"number": number, "text": "x" * 131_072})
    return {"text": "done", "words": 1}
'''


def with_large_answers(folder: Path) -> None:
    """An endpoint whose answers are large."""
    (folder / "handlers" / "large.py").write_text(HANDLER)
    text = (folder / "endpoints" / "text.toml").read_text()
    other = text.replace('path = "/text"', 'path = "/large"').replace("handlers.text.echo", "handlers.large.large")
    (folder / "endpoints" / "large.toml").write_text(other)


def with_streams(folder: Path) -> None:
    """An endpoint that streams more than anybody may leave unread."""
    (folder / "handlers" / "flow.py").write_text(FLOWING)
    text = (folder / "endpoints" / "text.toml").read_text()
    other = text.replace('path = "/text"', 'path = "/flow"').replace("handlers.text.echo", "handlers.flow.flow")
    (folder / "endpoints" / "flow.toml").write_text(other)


def _unreading(number: int, path: str, body: Mapping[str, object]) -> Callable[[Target, float], None]:
    """One after the other asks, sees that the answer begins, and reads nothing of it."""

    def run(target: Target, seconds: float) -> None:
        context, octets = client_context(target), request("ECHO", path, body)
        end, links, begun = time.monotonic() + 5 * seconds, list[RawLink](), 0
        for source in islice(addresses(), number):
            if time.monotonic() > end:
                break
            with contextlib.suppress(OSError):
                link = RawLink(target, context=context, source=source, receive_buffer=4096)
                links.append(link)
                # What TLS itself sends after the handshake is no answer.
                link.tls.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    link.tls.recv(1)
                link.tls.settimeout(PATIENCE)
                link.send(octets)
                begun += bool(select.select([link.tls], [], [], PATIENCE)[0])
        assert begun, "nobody was answered"
        for link in links:
            link.close()

    return run


ATTACKS = tuple(
    Attack(
        name=f"large-answers-unread-{number}",
        who="agent",
        says=f"Up to {number} peers ask for {LARGE // MIB} MiB each and read nothing: 40 MiB wait for them together.",
        run=_unreading(number, "/large", {"text": "x"}),
        configure=with_large_answers,
        # Those 40, one answer that is being made, in its three forms, and the connections.
        memory=(40 + 3 * LARGE // MIB + 12 + number * 3 // 16) * MIB,
    )
    for number in (20, 200)
) + (
    Attack(
        name="streams-unread",
        who="agent",
        says="100 peers ask for streams of 8 MiB and read nothing: each is cut off once a MiB waits for it.",
        run=_unreading(100, "/flow", {"parameters": {"text": "x"}, "context": {"stream": True}}),
        configure=with_streams,
        memory=(40 + 12 + 100 * 3 // 16) * MIB,
    ),
)
