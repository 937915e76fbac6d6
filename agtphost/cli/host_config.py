"""Find and load the ``host.toml`` that a command works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.cli.options import Connection
from agtphost.errors import ConfigurationError

if TYPE_CHECKING:
    from agtphost.config import Config

NO_HOST = "Name an agtp:// URI, --config FILE or --profile NAME, or change to the directory of a host.toml."


def find_config(where: Connection) -> Path | None:
    """Return the configuration that was named or that is in the current directory; None if there is none."""
    if where.config is not None:
        return where.config
    if where.profile is not None:
        return None
    from agtphost.client.target import found_config

    return found_config()


def load_config(path: Path) -> Config:
    """
    Load a ``host.toml``.

    :raises agtphost.cli.failures.CommandError: the file is not valid; the message lists every problem.
    """
    from agtphost.config import load

    try:
        return load(path)
    except ConfigurationError as error:
        raise configuration_error(error) from None


def require_config(where: Connection, purpose: str) -> Config:
    """Return the configuration for a command that works on the host's own files."""
    path = find_config(where)
    if path is None:
        raise WrongInput(f"{purpose} needs the host's own configuration", "Name it with --config host.toml.")
    return load_config(path)
