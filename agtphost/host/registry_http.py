"""Build the registry over HTTP of ``[registry] listen``."""

from __future__ import annotations

from agtphost.config import Config
from agtphost.config.surfaces import REGISTRY, asks_certificates
from agtphost.http.clients import HttpClients
from agtphost.http.registry import RegistryFacts, RegistryResource
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, principal_check, speaker_of, verified_certificate
from agtphost.iagtp import IGate
from agtphost.identity.directory import AgentDirectory


def registry_facts(config: Config, directory: AgentDirectory, oauth: IGate | None) -> RegistryFacts | None:
    """
    Return what the registry over HTTP needs to know, or None where it is not served.

    :param oauth: the gate that checks tokens of identity providers; None where none are trusted.
    :raises agtphost.errors.ConfigurationError: the configuration names an agent that this host does not know.
    """
    given = config.registry
    if given is None or given.listen is None:
        return None
    speaker = speaker_of(config, directory, (REGISTRY, "agent"), given.agent)
    hosted, reads = directory.list_hosted(), verified_certificate if asks_certificates(config, given) else None
    return RegistryFacts(
        path=given.path,
        url="" if given.url is None else f"{given.url.rstrip('/')}{given.path}",
        certified=reads,
        clients=HttpClients(
            REGISTRY,
            agent_id="" if oauth is None else speaker,
            keyholders=keyholders(config, directory),
            certified=reads,
            principal=principal_check(oauth) if speaker and oauth is not None else None,
        ),
        agent=f"agent:{hosted[0].name}" if len(hosted) == 1 else "",
        title=config.host.server_id,
    )


def build_surface(resource: RegistryResource) -> ServedSurface:
    """Return the surface of ``[registry]``."""
    return ServedSurface(name=REGISTRY, what="the registry", resource=resource)
