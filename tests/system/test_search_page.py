"""``docs/search.rst``, played word for word: one question by words and by meaning, and a section with a mistake."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from tests.system.pages import Step, blocks, playing, steps
from tests.system.test_first_minutes import HOME
from tests.system.test_registry_page import plain

PAGE = "search.rst"


def alike(step: Step, output: str, folder: Path) -> tuple[list[str], list[str]]:
    """What the page shows and what was said, without what differs; scores too may differ in their last digits."""

    def rounded(line: str) -> str:
        return re.sub(r'(?<="score": 0\.\d\d)\d+|(?<="score":0\.\d\d)\d+', "", re.sub(r"host\.toml:\d+", "LINE", line))

    shown = [rounded(line) for line in plain("\n".join(step.shown), Path(HOME))]
    return shown, [rounded(line) for line in plain(output, folder)]


def test_what_no_word_names_is_found_by_meaning(tmp_path: Path) -> None:
    """As the page tells it: nothing by words, the right thing by meaning after a reload, in all three places."""
    first, *others = steps(PAGE)
    added, instead = [block for block in blocks(PAGE) if block.startswith("[search]")]
    section = added.partition("\n\n")[0]
    with ExitStack() as hosts, playing(steps(PAGE)) as player:
        up = player.up(first, tmp_path, last='  "agtp": {')
        hosts.callback(up.stop)
        up.wait()
        config = tmp_path / "work" / "host.toml"
        edits = [f"{config.read_text()}\n{added}\n"]
        edits.append(edits[0].replace(section, instead))
        for step in others:
            if step.command.startswith("agtp reload"):
                config.write_text(edits.pop(0))
            status, output = player.type(step, tmp_path)
            while "bm25" in output and not any("bm25" in line for line in step.shown):
                # Words answer until each entry has its vector, which takes longer on a busy machine.
                status, output = player.type(step, tmp_path)
            assert status == step.status, output
            shown, said = alike(step, output, tmp_path)
            assert shown == said, step.command
    # The control: an answer by words is not taken for the page's.
    meant = next(step for step in others if '"engine": "static",' in map(str.strip, step.shown))
    worded = next(step for step in others if '"engine": "bm25"' in map(str.strip, step.shown))
    wrong, said = alike(meant, "\n".join(worded.shown), Path(HOME))
    assert wrong != said
