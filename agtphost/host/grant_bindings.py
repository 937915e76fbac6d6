"""Apply grants: those of the configuration, and the methods by which operators change them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache

from agtphost.config import problems_in
from agtphost.config.faults import ConfigFault
from agtphost.contract.binding import Binding
from agtphost.contract.grant_check import Grantable, NotGrantable, NotOffered
from agtphost.contract.grants import Grant
from agtphost.contract.reserved import GRANTS
from agtphost.errors import ConfigurationError
from agtphost.host.scope_names import named_scopes
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods.grants import Granting
from agtphost.methods.rights import AgentRights, Bounds
from agtphost.negotiation.negotiator import Negotiator
from agtphost.upstream.failures import UpstreamFailure
from agtphost.vocabulary.grants import upstream_of

START_TIMEOUT = 15.0
"""Seconds that a server gets to list its tools before a grant is accepted unchecked."""

STATEMENTS = {
    "AUTHORIZE": "Limit an agent to what its grants name, and add a grant; for operators.",
    "REVOKE": "Take grants of an agent back, for operators.",
    "QUERY": "The grants of the calling agent; for operators, those of all.",
}


def granting_bindings(services: HostServices, upstreams: Upstreams, negotiating: Negotiator) -> tuple[Binding, ...]:
    """Return the bindings that change and list grants."""
    grantable = Grantable(services.registry.admitted_bindings, upstreams.adapters)

    async def ask(upstream: str) -> None:
        server = upstreams.mcp.servers.get(upstream)
        if server is not None:
            with suppress(UpstreamFailure):
                await server.wait_until_up(START_TIMEOUT)

    shown = AgentRights(
        grantable,
        services.rights,
        services.scopes,
        services.evidence.states.state_of,
        _bounds(services),
        services.seconds,
    )
    handler = Granting(
        services.rights,
        grantable,
        services.scopes,
        shown,
        services.loaded.directory.list_known,
        services.authorization,
        ask,
        negotiating.places,
        services.seconds,
    )
    return tuple(
        # People are known by their certificate's key and are not agents.
        Binding.native(
            *place,
            handler,
            STATEMENTS[place[0]],
            Assurance.NONE,
            changes=place[0] != "QUERY",
            server_level=True,
            vital=place[0] == "REVOKE",
        )
        for place in GRANTS
    )


def _bounds(services: HostServices) -> Bounds:
    """Return what bounds the calls of all agents besides their rights."""
    config = services.config
    return Bounds(
        requests_per_minute=config.limits.requests_per_minute,
        dimensions=tuple(each.model_dump(mode="json", exclude_none=True) for each in config.policies.scope_dimensions),
        known_scopes=cache(lambda: named_scopes(config)),
    )


def configure_grants(services: HostServices, upstreams: Upstreams) -> None:
    """
    Apply the grants of the configuration.

    A start and a reload say the same of one file: of a server, only the name is checked, because its tools are known
    once it runs, and can change then. :func:`unmatched_grants` names those that no server has.

    :raises agtphost.errors.ConfigurationError: a grant names an unknown agent, or nothing that can be granted.
    """
    grantable = Grantable(services.registry.admitted_bindings, upstreams.adapters)
    faults: list[ConfigFault] = []
    grants: list[Grant] = []
    for at, section in enumerate(services.config.grant):
        agent = _agent(services, section.agent, at, faults)
        for place, text in enumerate(section.allow):
            try:
                grantable.remark(text)
            except NotOffered:
                continue
            except NotGrantable as error:
                meant = f"did you mean {', '.join(error.close)}?" if error.close else "`agtp tools ls` lists tools"
                faults.append(
                    ConfigFault(location=("grant", at, "allow", place), message=f"cannot be: {error}", hint=meant)
                )
        if agent is not None:
            grants += [Grant(agent_id=agent.agent_id, allow=text, until=section.ends) for text in section.allow]
    if faults:
        raise ConfigurationError(problems_in(services.config.file, faults))
    services.rights.configure(grants)


def unmatched_grants(services: HostServices, upstreams: Upstreams) -> Iterator[str]:
    """Yield warnings of each ``[[grant]]`` that has ended, and of each tool that its server did not list."""
    grantable = Grantable(services.registry.admitted_bindings, upstreams.adapters)
    for section in services.config.grant:
        if section.ends is not None and section.ends <= services.seconds():
            yield f"[[grant]] of {section.agent} ended at {section.until} and grants nothing"
        for text in section.allow if any(map(upstream_of, section.allow)) else ():
            try:
                grantable.remark(text)
            except NotOffered as error:
                meant = f"; did you mean {', '.join(error.close)}?" if error.close else ""
                yield f"[[grant]] of {section.agent} grants nothing by {text}: {error}{meant}"


class GrantWatch:
    """
    A watch for servers that list their tools: a lazy one does so at its first call, long after the start.

    :param write: logs warnings of :func:`unmatched_grants`.
    """

    def __init__(self, write: Callable[[Iterable[str]], object]) -> None:
        self._write = write
        self._unlisted: list[str] | None = None

    def check(self, services: HostServices, upstreams: Upstreams) -> None:
        """Write the warnings again if other servers than before have not listed their tools."""
        if not services.config.grant:
            return
        unlisted = Grantable(services.registry.admitted_bindings, upstreams.adapters).find_unlisted()
        if unlisted != self._unlisted:
            self._unlisted = unlisted
            self._write(unmatched_grants(services, upstreams))


def _agent(services: HostServices, named: str, at: int, faults: list[ConfigFault]) -> Agent | None:
    """Return the agent that a grant names, or add a fault and return None."""
    known = services.loaded.directory.list_known()
    found = [agent for agent in known if named in (agent.name, agent.agent_id)]
    if len(found) == 1:
        return found[0]
    if found:
        said, hint = f"names {named}, the name of several agents", "give the Agent-ID: `agtp agent ls` lists them"
    else:
        near = difflib.get_close_matches(named, sorted({agent.name for agent in known}), 1)
        said, hint = f"names {named}, and this host knows no such agent", "`agtp agent ls` lists them"
        hint = f"did you mean {near[0]}?" if near else hint
    faults.append(ConfigFault(location=("grant", at, "agent"), message=said, hint=hint))
    return None
