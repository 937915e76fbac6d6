"""``twistd agtp``: options, then assembly."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

from agtphost.errors import ConfigurationError


class Options(usage.Options):
    """Options of ``twistd agtp``."""

    synopsis = "Usage: twistd [twistd options] agtp --config host.toml"
    longdesc = (
        "Hosts MCP servers, agents and Python functions behind the Agent Transfer Protocol. "
        "Everything is said in the configuration file; `agtp check host.toml` validates it, "
        "and `agtp init DIR` writes a ready deployment."
    )
    optParameters = [
        ["config", "c", None, "The configuration file, host.toml."],
    ]

    def postOptions(self) -> None:
        if not self["config"]:
            raise usage.UsageError("--config host.toml is needed; `agtp init DIR` writes one")


def makeService(options: Options) -> IService:
    """
    Build the whole host from its configuration.

    :raises SystemExit: with status 1 and every reason printed, where it cannot start.
    """
    # The reactor is named here and nowhere deeper: everything else is handed it.
    from twisted.internet import reactor

    from agtphost.config import load
    from agtphost.host.assembly import assemble

    path = Path(options["config"])
    try:
        config = load(path, os.environ)
        return assemble(config, _reactor(reactor), os.environ)
    except ConfigurationError as error:
        print(f"agtphost cannot start with {path}:", file=sys.stderr)
        for problem in error.problems:
            print(f"  {problem}", file=sys.stderr)
        raise SystemExit(1) from None


def _reactor(module: Any) -> Any:
    """The installed reactor, which Twisted presents as a module."""
    return module
