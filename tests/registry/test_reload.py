"""``[registry]`` over a reload: what takes effect at once, and what waits."""

from __future__ import annotations

from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.testing.loaded_parts import config_of


def test_what_waits_for_a_restart() -> None:
    """Only where HTTP listens; a section that comes or goes is taken for the rest."""
    without, plain = config_of({}, {}), config_of({"registry": {"refetch_seconds": 600}}, {})
    listening = config_of({"registry": {"listen": "tcp:8089:interface=127.0.0.1", "forget_days": 7}}, {})
    taken, tables, waiting = merge_reloadable(plain, without)
    assert taken.registry == plain.registry and "[registry]" in tables and waiting == []
    taken, tables, waiting = merge_reloadable(listening, without)
    assert taken.registry is not None and taken.registry.listen is None and taken.registry.forget_days == 7
    assert waiting == ["[registry] listen"]
    taken, tables, waiting = merge_reloadable(without, plain)
    assert taken.registry is None and tables == ["[registry]"] and waiting == []
    taken, tables, waiting = merge_reloadable(without, listening)
    assert taken.registry == listening.registry and tables == [] and waiting == ["[registry] listen"]
    assert merge_reloadable(plain, plain)[1:] == ([], [])
