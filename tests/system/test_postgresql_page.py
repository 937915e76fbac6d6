"""The commands of the page on PostgreSQL, with a server of this machine."""

from __future__ import annotations

from pathlib import Path

from tests import postgres
from tests.system.hosting import sample
from tests.system.pages import playing, shows, steps

PAGE = "postgresql.rst"

pytestmark = postgres.needed


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """Each ends as the page says, once ``host.toml`` names a database."""
    server = postgres.server()
    config = sample(tmp_path, append=f'\n[store]\nurl = "{server.url(server.schema(tmp_path))}"\n')
    with playing(steps(PAGE)) as player:
        for step in steps(PAGE):
            shows(step, *player.type(step, config.parent))
