"""``twistd agtp``: options, then assembly."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from twisted.application.service import IService
from twisted.python import usage

from agtphost.errors import ConfigurationError, report_unreadable
from agtphost.vocabulary import platforms


class Options(usage.Options):
    """Options of ``twistd agtp``."""

    synopsis = "[options] --config host.toml"
    longdesc = (
        "Hosts MCP servers and Python functions behind the Agent Transfer Protocol (AGTP). Everything is configured in "
        "one file: `agtp check host.toml` validates it, and `agtp init DIR` writes a ready deployment."
    )
    optParameters = [["config", "c", None, "The configuration file, host.toml."]]

    def postOptions(self) -> None:
        """
        Check the options.

        :raises twisted.python.usage.UsageError: without ``--config``.
        """
        if not self["config"]:
            raise usage.UsageError("--config host.toml is needed; `agtp init DIR` writes one")


def makeService(options: Options) -> IService:
    """
    Read and check everything the host is made of.

    :raises SystemExit: with status 1, every reason printed, where it cannot start.
    """
    if platforms.lacks_host():
        raise SystemExit(f"{platforms.explain_platform('twistd agtp')}. {platforms.REMEDY}")
    # The reactor is named here and at the command's edge; everything else is handed it.
    from twisted.internet import reactor

    from agtphost.config import load
    from agtphost.host.host_loader import load_host
    from agtphost.host.root import HostService
    from agtphost.host.start_failure import StandardError, reasons
    from agtphost.logs.json_log import print_json_lines

    path = Path(options["config"])
    with ExitStack() as stack:
        try:
            with report_unreadable():
                config = load(path, os.environ)
                if config.log.format == "json":
                    stack.enter_context(print_json_lines())
                return HostService(load_host(config, os.environ), reactor, os.environ, StandardError())
        except ConfigurationError as error:
            print(reasons(path, error.problems), file=sys.stderr)
            raise SystemExit(1) from None
