"""Pages of the standard methods, played word for word on the host of these tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.system.pages import Player, Step
from tests.system.standard.hosted import Standard
from tests.system.test_first_minutes import HOME
from tests.system.test_registry_page import plain

VARYING = re.compile(
    r"eyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|\b(?:azn-|alert-|ntf-|att-)?[0-9a-f]{32,64}(?:-[0-9a-f]{16})?\b"
    r"|\b20\d\d-[0-9T:.-]+Z"
    r"|(?<=resumption_nonce\": \")[\w-]+"
    r"|ed25519-[0-9a-f]{16}"
)
"""What is another in each run: tokens, identifiers, times and keys."""


def played(player: Player, every: Sequence[Step], standard: Standard) -> None:
    """
    Type each command of a page, and hold it to the page: its exit status, and every line of its output.

    What one command says and a later one is given, such as an identifier, is the one of this run.
    """
    folder = standard.config.parent
    here: dict[str, str] = {}
    for step in every:
        line = VARYING.sub(lambda each: here.get(each[0], each[0]), step.command)
        found, output = player.type(step, folder, line=line)
        assert found == step.status, f"{step.command}\n{output}"
        shown = "\n".join(step.shown)
        assert _lines(output, folder) == _lines(shown, Path(HOME)), step.command
        here.update(zip(VARYING.findall(shown), VARYING.findall(output), strict=True))


def _lines(text: str, folder: Path) -> list[str]:
    """Without what differs from run to run."""
    return plain(VARYING.sub("*", text), folder)
