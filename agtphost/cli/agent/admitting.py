"""Having a running host take up an agent that was issued beside it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from agtphost.cli.exchange import ask
from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.options import Connection
from agtphost.cli.target import resolve
from agtphost.stores.state_lock import StateLock

if TYPE_CHECKING:
    from agtphost.config import Config

PATIENCE = 15.0
"""Seconds that a running host has to admit an agent."""

PAUSE = 0.4
"""Seconds between two looks: each that is too early is a refusal on record."""


def admit(config: Config, name: str) -> bool:
    """
    Have a running host take an agent up, and wait until it answers it.

    :return: whether a host runs; it takes it up at its start otherwise.
    :raises CommandError: it does not take it.
    """
    holder = StateLock(config.host.state_dir, config.store.path).holder()
    if holder is None:
        return False
    number = holder.strip(", ").removeprefix("pid ")
    try:
        os.kill(int(number), signal.SIGHUP)
    except (ValueError, OSError):
        raise WrongInput(
            f"the host{holder} cannot be told of the agent {name}", "Send it SIGHUP, then repeat."
        ) from None
    target = resolve(Connection(config=config.file, identity=name))
    end = time.monotonic() + PATIENCE
    while True:
        time.sleep(PAUSE)
        try:
            ask(target, "DISCOVER", "/methods")
            return True
        except CommandError as error:
            if time.monotonic() > end:
                why = f"the host does not take up the agent {name}: {error.message}"
                raise WrongInput(why, "Its log says why; restart it.") from None
