"""Make a running host admit an agent that was issued while it runs."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from agtphost.cli.exchange import ask
from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.options import Connection
from agtphost.cli.standby_status import standby_fields
from agtphost.cli.target import resolve
from agtphost.stores.settings import locate_store

if TYPE_CHECKING:
    from agtphost.config import Config

PATIENCE = 15.0
"""Seconds that a running host may take to admit an agent."""

PAUSE = 0.4
"""Seconds between two attempts. An attempt that comes too early is a refusal on record."""


def require_no_standby(config: Config) -> None:
    """
    Check, before an agent is issued, that the host here serves: a standby cannot admit an agent.

    :raises WrongInput: it is a standby; the message says where the host is that serves.
    """
    if seen := standby_fields(Connection(config=config.file)):
        serving = f"{seen['serving']} serves, at {seen['serving_at']}" if seen["serving"] else "no host serves"
        raise WrongInput(
            f"the host here, {seen['name']}, is a standby, which cannot admit an agent; {serving}. Nothing was issued",
            "Type the command on the machine of the host that serves.",
        )


def serves_here(config: Config) -> bool:
    """Return whether a host of this configuration runs on this machine and serves."""
    return bool(_holder(config)) and not standby_fields(Connection(config=config.file))


def _holder(config: Config) -> str | None:
    return locate_store(config.store).lock(config.host.state_dir).holder()


def admit(config: Config, name: str) -> bool:
    """
    Make a running host admit an agent, and wait until the host answers it.

    :return: whether a host runs; a stopped host admits the agent when it starts.
    :raises CommandError: the host does not admit the agent in time, or cannot be signalled.
    """
    holder = _holder(config)
    if holder is None:
        return False
    number = holder.strip(", ").removeprefix("pid ")
    try:
        os.kill(int(number), signal.SIGHUP)
    except (ValueError, OSError):
        raise WrongInput(
            f"the agent {name} is issued, but the host{holder} cannot be signalled to admit it",
            "`agtp reload` admits it.",
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
                why = f"the agent {name} is issued, but the host does not admit it: {error.message}"
                cure = "`agtp check` names faults of the configuration, with which it admits none; then `agtp reload`."
                raise WrongInput(why, cure) from None
