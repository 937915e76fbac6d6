"""The commands of the page on PostgreSQL, with a server of this machine."""

from __future__ import annotations

from pathlib import Path

from tests import postgres
from tests.system.hosting import running, sample
from tests.system.pages import playing, shows, steps

PAGE = "postgresql.rst"
EXAMPLE = "postgresql://agtp@db.example.com/agtp"

pytestmark = postgres.needed


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """Each ends as the page says, once ``host.toml`` names a database."""
    server = postgres.server()
    config = sample(tmp_path, append=f'\n[store]\nurl = "{server.url(server.schema(tmp_path))}"\n')
    other, url = config, ""
    with playing(steps(PAGE)) as player:
        for step in steps(PAGE):
            if step.command.startswith("agtp audit verify --store"):
                # The store that moved stands for a restored backup.
                line = step.command.replace("postgresql://agtp@db.example.com/restored", f"'{url}'")
                shows(step, *player.type(step, other.parent, line=line))
                continue
            if not step.command.startswith("agtp store copy"):
                shows(step, *player.type(step, config.parent))
                continue
            # The host with which the page begins has an empty store; one that ran on SQLite moves.
            other = sample(tmp_path / "ran")
            with running(other) as host:
                assert host.stop() == 0
            url = server.url(server.schema(other.parent))
            line = step.command.replace(EXAMPLE, f"'{url}'")
            shows(step, *player.type(step, other.parent, line=line))
