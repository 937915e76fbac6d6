"""``docs/agis.rst``, played word for word: two documents, what is found in them, and how they are mended."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.system.pages import playing, steps

PAGE = "agis.rst"


def test_the_page_is_what_happens(tmp_path: Path) -> None:
    """Each command says what the page shows, and nothing else."""
    every = steps(PAGE)
    for step in every:
        if step.command.startswith("cat "):
            (tmp_path / shlex.split(step.command)[1]).write_text("\n".join((*step.shown, "")))
    with playing(every) as player:
        for step in every:
            status, output = player.type(step, tmp_path)
            assert (status, output.splitlines()) == (step.status, [*step.shown]), step.command
    (run,) = json.loads((tmp_path / "agis.sarif").read_text())["runs"]
    assert {each["ruleId"] for each in run["results"]} >= {"AGIS-P3-http-method", "AGIS-P3-borderline"}
    assert all("suppressions" in each for each in run["results"])
    settled = [each for each in run["results"] if each["suppressions"]]
    assert [each["suppressions"][0]["justification"] for each in settled] == ["Run is what our users say of payrolls."]
