"""
The one command by which an operator lifts a refusal for want of a right.

Records have it as ``extra.cure``, so ``agtp explain`` and the page show it to operators. The answer ends in it too,
where its caller may see what it names: an agent known for certain learns its own name and the name of what it asked
for, both of which it has. A caller that only names an agent gets no name in return.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from agtphost.contract.binding import Binding
from agtphost.contract.rights import format_grant, is_free
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.identity.required_assurance import is_believed
from agtphost.vocabulary.grants import ANY, is_grant
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.scopes import is_token, missing

CURED: Final = frozenset(
    {
        Reason.SCOPE_REQUIRED,
        Reason.SCOPE_CLAIM_INVALID,
        Reason.SCOPE_COMMITMENT_EXCEEDED,
        Reason.SCOPE_VIOLATION,
        Reason.GRANT_REQUIRED,
        Reason.AGENT_UNAUTHENTICATED,
        Reason.AGENT_SUSPENDED,
        Reason.ANONYMOUS_DISCOVERY_DISABLED,
    }
)
"""Reasons about rights whose refusals by the gates end in such a command."""

VISITOR: Final = "visitor"
"""The label that a command suggests for a caller without a name."""


def allow(agent: str, things: Iterable[str]) -> tuple[str, ...]:
    """
    Return the command that lets an agent call something, or nothing.

    A caller chooses what it asks for and what it claims. No command gives a wildcard, so that none gives more than one
    call needs, and none is made of what is not in the form of a scope or a grant.

    :param agent: its label, or its Agent-ID.
    :param things: scopes, or what can be called as grants name it.
    """
    words = list(things)
    if not words or any(ANY in word or not (is_token(word) or is_grant(word)) for word in words):
        return ()
    return (shlex.join(["agtp", "agent", "allow", agent, *words]),)


def lacking(agent: Agent, scopes: Sequence[str]) -> str:
    """
    Return a sentence on scopes that some tools ask for and a caller does not have, with what gives them.

    :param agent: who calls.
    :param scopes: what it lacks, sorted.
    """
    named = scopes[:MOST_NAMED]
    more = f" and {len(scopes) - MOST_NAMED} more" if len(scopes) > MOST_NAMED else ""
    plural = "s" if len(scopes) > 1 else ""
    said = f"Some tools ask for the scope{plural} {', '.join(named)}{more}, without which {agent.name} calls here"
    if not missing(agent.scopes, named):
        return (
            f"{said}. Its document has {'them' if plural else 'it'}, and the scopes of its [[http.client]], its "
            "certificate or the request do not."
        )
    command = allow(agent.name, named)
    return f"{said}. An operator can allow {'them' if plural else 'it'}: {command[0]}" if command else f"{said}."


def grant_of(binding: Binding) -> tuple[str, ...]:
    """Return how a grant names a binding; empty for what needs none."""
    return () if is_free(binding) else (format_grant(binding),)


def issue(scopes: Iterable[str]) -> str:
    """Return the command that issues an agent for a caller without a name."""
    words = [word for scope in scopes for word in ("--scope", scope)]
    return shlex.join(["agtp", "agent", "new", VISITOR, *words, "--admit"])


def certify(agent_id: str) -> str:
    """Return the command that writes an agent's client certificate."""
    return shlex.join(["agtp", "agent", "renew", agent_id])


def reinstate(agent: str) -> str:
    """Return the command that ends an agent's suspension."""
    return shlex.join(["agtp", "agent", "reinstate", agent])


MOST_NAMED: Final = 5
"""How many scopes one sentence names."""

RELOAD: Final = "agtp reload"
"""The command by which a host takes up agents that were issued while it runs."""


def name_of(exchange: Exchange, agent: Agent) -> str:
    """Return how an answer names its caller: by its label if it is known for certain, else as it named itself."""
    return agent.name if is_believed(exchange.assurance) else agent.agent_id


def add(refusal: Refusal, remedy: str, command: str) -> Refusal:
    """Return a refusal whose remedy ends in a command, which its record has as well."""
    refusal.remedy, refusal.cure = f"{remedy}: {command}", command
    return refusal
