"""The ``host.toml`` that a command works with: named, or found where the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.failures import WrongInput, misconfigured
from agtphost.cli.options import Connection
from agtphost.errors import ConfigurationError

if TYPE_CHECKING:
    from agtphost.config import Config

NO_HOST = "Name an agtp:// URI, --config FILE or --profile NAME, or work where a host.toml is."


def find_config(where: Connection) -> Path | None:
    """The configuration that was named, or lies where the command runs."""
    if where.config is not None:
        return where.config
    if where.profile is not None:
        return None
    from agtphost.client.target import found_config

    return found_config()


def load_config(path: Path) -> Config:
    """
    Read a ``host.toml``.

    :raises CommandError: with every problem.
    """
    from agtphost.config import load

    try:
        return load(path)
    except ConfigurationError as error:
        raise misconfigured(error) from None


def require_config(where: Connection, purpose: str) -> Config:
    """The configuration, for commands that work on the host's own files."""
    path = find_config(where)
    if path is None:
        raise WrongInput(f"{purpose} needs the host's own configuration", "Name it by --config host.toml.")
    return load_config(path)
