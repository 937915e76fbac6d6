"""``docs/openapi.rst``, played word for word where nothing is set up, and where others have the usual ports."""

from __future__ import annotations

import re
from pathlib import Path

from tests.system.hosting import until
from tests.system.pages import playing, steps
from tests.system.test_first_minutes import HOME
from tests.system.test_gateway_page import plain, taken
from tests.system.up_host import typed

PAGE = "openapi.rst"

VARYING = (
    (r"agtp://localhost:\d+", "agtp://localhost"),
    # It counts what became of the host's servers since it started.
    (r'("version": )"\d+"', r'\1"N"'),
)
"""What differs from run to run besides what does on the gateway's page."""


def told(text: str, folder: Path) -> list[str]:
    """The lines of an output, with what differs between two runs taken out."""
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return plain(text, folder)


def test_the_page_is_as_it_is_told(tmp_path: Path) -> None:
    """What a token may call, once and again, and what is told to whoever asks."""
    first, *others = steps(PAGE)
    with taken(8080), playing(steps(PAGE)) as player:
        up = player.up(first, tmp_path, last='  "agtp": {')
        try:
            base = up.wait().value("gateway")
            # On a busy machine the host is ready before its MCP server is.
            until(lambda: "files.list_files" in typed(tmp_path, "agtp tools ls --config work")[1])
            for step in others:
                status, output = player.type(step, tmp_path, line=step.command.replace("http://127.0.0.1:8080", base))
                assert status == step.status, f"{step.command}\n{output}"
                assert told("\n".join(step.shown), Path(HOME)) == told(output, tmp_path), step.command
        finally:
            up.stop()
