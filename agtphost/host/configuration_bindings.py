"""Bind the methods of AGTP that reload a host's configuration."""

from __future__ import annotations

from agtphost.config.reloadable_keys import SECONDS
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import CONFIGURATION
from agtphost.host.services import HostServices
from agtphost.identity.peer import Assurance
from agtphost.methods.reload import ConfigurationAccess

STATEMENT = "Apply the changed configuration, all of it or nothing; for operators."


def configuration_bindings(services: HostServices) -> tuple[Binding, ...]:
    """Return the binding of ACTIVATE, or none if the configuration has no files that could change."""
    if services.loaded.volatile:
        return ()
    handler = ConfigurationAccess(
        services.lasting.reloads, services.authorization, services.loaded.directory.list_known
    )
    # People are known by their certificate's key and are not agents.
    return tuple(
        Binding.native(*place, handler, STATEMENT, Assurance.NONE, changes=True, server_level=True, timeout=SECONDS)
        for place in CONFIGURATION
    )
