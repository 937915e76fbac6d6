"""``docs/registry.rst``, played word for word where nothing is set up, and where others have the usual port."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from tests import forking
from tests.system.hosting import BIN
from tests.system.pages import blocks, playing, steps
from tests.system.test_first_minutes import HOME, told
from tests.system.up_host import beside

PAGE = "registry.rst"

VARYING = ((r"(?<=key:)[0-9a-f]{8}", "KEY"), (r"^configuration 2 .*", "RECORDED"), (r"^0\.\d\d ", "SCORE "))
"""What differs besides the tokens of :mod:`tests.system.test_first_minutes`; of scores their order does not."""


def plain(text: str, folder: Path) -> list[str]:
    """The lines of an output, with what differs between two runs taken out."""
    text = text.replace(forking.path(), str(BIN)).replace(str(beside(folder)), HOME)
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.strip() for line in told(text, folder, 0)]


def test_one_tool_is_found_and_called_and_not_found_by_who_may_not(tmp_path: Path) -> None:
    """As the page tells it: a search among all that there is, a call by the card, the same search of who may not."""
    first, *others = steps(PAGE)
    with ExitStack() as hosts, playing(steps(PAGE)) as player:
        up = player.up(first, tmp_path, last='  "agtp": {')
        hosts.callback(up.stop)
        up.wait()
        added, *_ = [block for block in blocks(PAGE) if block.startswith("[registry]")]
        with (tmp_path / "work" / "host.toml").open("a") as file:
            file.write(f"\n{added}\n")
        for step in others:
            status, output = player.type(step, tmp_path)
            assert status == step.status, output
            assert plain("\n".join(step.shown), Path(HOME)) == plain(output, tmp_path), step.command
