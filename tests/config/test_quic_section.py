"""The keys of ``[quic]``."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agtphost.config.quic import QuicSection
from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.testing.loaded_parts import config_of

TAKEN: dict[str, tuple[Any, ...]] = {
    "port": (0, 65_535),
    "streams": (1, 128),
    "retry": ("pressed", "always"),
    "half_open": (0, 4096),
    "datagram_size": (1200, 1452),
}
REFUSED: dict[str, tuple[Any, ...]] = {
    "port": (-1, 65_536),
    "streams": (0, 129),
    "retry": ("never", ""),
    "half_open": (-1, 4097),
    "datagram_size": (1199, 1453),
}


@pytest.mark.parametrize("key", TAKEN)
def test_bounds_of_each_key(key: str) -> None:
    """The least and the greatest value are taken, and none beyond them."""
    for value in TAKEN[key]:
        assert getattr(QuicSection(**{key: value}), key) == value
    for value in REFUSED[key]:
        with pytest.raises(ValidationError):
            QuicSection(**{key: value})


def test_what_is_not_said() -> None:
    """Off, at the port of TLS, with 16 requests at a time and Retry under load."""
    section = QuicSection()
    assert (section.enabled, section.port, section.streams, section.retry) == (False, 0, 16, "pressed")
    assert (section.half_open, section.datagram_size, section.qlog) == (64, 1200, None)


@pytest.mark.parametrize("change", [{"enabled": True}, {"streams": 3}, {"qlog": "traces"}])
def test_every_change_waits_for_a_restart(change: dict[str, Any]) -> None:
    """A reload keeps what the host runs with, and says so."""
    running = config_of({}, {})
    taken, tables, waiting = merge_reloadable(config_of({"quic": change}, {}), running)
    assert (taken.quic, tables, waiting) == (running.quic, [], ["[quic]"])
