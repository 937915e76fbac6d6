"""``docs/data-methods.rst``, played word for word on the host of these tests."""

from __future__ import annotations

from tests.system.pages import playing, steps
from tests.system.standard.hosted import Standard
from tests.system.standard.paged import played


def test_the_page_of_methods_on_data(standard: Standard) -> None:
    """Each command as it stands there, and its whole output but for what is another in each run."""
    every = steps("data-methods.rst")
    assert len(every) >= 6
    with playing(every) as player:
        played(player, every, standard)
