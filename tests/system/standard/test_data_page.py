"""``docs/data-methods.rst``, played word for word on the host of these tests."""

from __future__ import annotations

from pathlib import Path

from tests.system.pages import playing, steps
from tests.system.standard.hosted import Standard
from tests.system.test_first_minutes import HOME
from tests.system.test_registry_page import plain

PAGE = "data-methods.rst"


def test_the_page_of_methods_on_data(standard: Standard) -> None:
    """Each command as it stands there, and its whole output but for the identifiers of this run."""
    folder = standard.config.parent
    with playing(steps("data-methods.rst")) as player:
        for step in steps(PAGE):
            status, output = player.type(step, folder)
            assert status == step.status, output
            assert plain("\n".join(step.shown), Path(HOME)) == plain(output, folder), step.command
