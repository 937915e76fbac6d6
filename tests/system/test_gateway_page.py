"""``docs/gateway.rst``, played word for word where nothing is set up, and where others have the usual ports."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import forking
from tests.system.hosting import BIN
from tests.system.pages import playing, steps
from tests.system.test_first_minutes import HOME, told
from tests.system.up_host import beside

PAGE = "gateway.rst"

VARYING = (
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"^port +\d+  \(a free one\)\n", ""),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "RECORD"),
    (r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "UUID"),
    (r"(?<=ed25519-)[0-9a-f]{16}", "KEY"),
    (r'(?<="reservation_id":")[0-9a-f]{16}', "RESERVATION"),
    (r"^Date: .*", "Date: NOW"),
    # The manifest is written anew a moment after an agent was revoked.
    (r"^AGTP-API-Version: \d+", "AGTP-API-Version: N"),
    (r"(?<=host\.toml:)\d+", "LINE"),
)
"""What differs from run to run besides the tokens of :mod:`tests.system.test_first_minutes`."""


def plain(text: str, folder: Path) -> list[str]:
    """The lines of an output, with what differs between two runs taken out."""
    text = text.replace(forking.path(), str(BIN)).replace(str(beside(folder)), HOME)
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.strip() for line in told(text, folder, 0)]


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Somebody listens there: we, or whoever did before."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            other.bind(("127.0.0.1", port))
            other.listen()
        yield


def test_the_page_is_as_it_is_told(tmp_path: Path) -> None:
    """A booking with curl, its record verified, the agent revoked, and the same call 410; all that each says."""
    first, *others = steps(PAGE)
    with taken(8080), playing(steps(PAGE)) as player:
        up = player.up(first, tmp_path, last='  "agtp": {')
        try:
            base = up.wait().value("gateway")
            assert not base.endswith(":8080")
            assert plain("\n".join(first.shown), Path(HOME)) == plain(up.text, tmp_path)
            for step in others:
                status, output = player.type(step, tmp_path, line=step.command.replace("http://127.0.0.1:8080", base))
                assert status == step.status, f"{step.command}\n{output}"
                assert plain("\n".join(step.shown), Path(HOME)) == plain(output, tmp_path), step.command
        finally:
            up.stop()
    assert output.startswith("HTTP/1.1 410 ") and "AGTP-Status: 410 Gone" in output
