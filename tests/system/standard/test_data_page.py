"""``docs/data-methods.rst``, played word for word on the host of these tests."""

from __future__ import annotations

from tests.system.pages import playing, shows, steps
from tests.system.standard.hosted import Standard

PAGE = "data-methods.rst"


def test_the_page_of_methods_on_data(standard: Standard) -> None:
    """Each command as it stands there, and its whole output."""
    with playing(steps("data-methods.rst")) as player:
        for step in steps(PAGE):
            shows(step, *player.type(step, standard.config.parent))
