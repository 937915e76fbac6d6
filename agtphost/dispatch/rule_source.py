"""
Which line of which file a call was decided by, for those who may change it.

The gates have decided, with a reason. The reason and the call's binding lead to the key that caused it: of
``host.toml``, of an endpoint's file, or of the caller's own document. It is looked up on demand, in what was read at
the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.dispatch.exchange import Exchange
from agtphost.identity.agents import Agent
from agtphost.vocabulary.reasons import Reason

APPROVAL = "approval"
"""In place of a reason: what makes a person approve the call."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_OF_BINDING: Mapping[str, str] = {
    Reason.SCOPE_REQUIRED: "scopes",
    Reason.AGENT_UNAUTHENTICATED: "min_assurance",
    Reason.INVALID_INPUT: "input_schema",
    Reason.INVALID_OUTPUT: "output_schema",
    Reason.NOT_OFFERED_BY_AGENT: "agents",
    Reason.APPROVAL_REQUIRED: APPROVAL,
    Reason.TOOL_DEFINITION_CHANGED: "pins",
    Reason.TIMEOUT: "timeout",
    APPROVAL: APPROVAL,
}
"""Reasons that a binding's own entry decides, by the key of an upstream's section."""

_OF_HOST: Mapping[str, tuple[str, ...]] = {
    Reason.ANONYMOUS_DISCOVERY_DISABLED: ("policies", "anonymous_discovery"),
    Reason.WILDCARDS_REQUIRED: ("policies", "wildcards_accepted"),
    Reason.RATE_LIMITED: ("limits", "requests_per_minute"),
    Reason.BODY_TOO_LARGE: ("limits", "body"),
    Reason.OAUTH_REQUIRED: ("policies", "oauth"),
    Reason.OAUTH_INVALID: ("policies", "oauth"),
}
"""Reasons that one key decides for all calls."""

_OF_CALLER = frozenset({Reason.SCOPE_CLAIM_INVALID, Reason.SCOPE_COMMITMENT_EXCEEDED})
"""Reasons that the document of the caller decides: what it was granted."""

_SECTIONS = (("mcp_server", "mcp", "server"), ("a2a_agent", "a2a", "agent"), ("acp_server", "acp", "agent"))
"""Members of a binding's ``extra`` that name an upstream, and the tables that declare it."""

_ONE = (("mcp_tool", "tools"), ("mcp_resource", "resources"), ("mcp_prompt", "prompts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The line of a file that decided about a call."""

    file: str
    """As its operator finds it: relative to ``host.toml``, or absolute."""

    line: int
    """Counted from 1; 0: the file as a whole."""

    key: str
    """The key that is there, or could be there: ``[[mcp.server]] "files" scopes``."""

    default: bool = False
    """Whether the key is left out, and its default decided; then the line is its section's."""

    def document(self) -> dict[str, Any]:
        """Return the rule as JSON, for INSPECT."""
        return {"file": self.file, "line": self.line, "key": self.key, "default": self.default, "at": str(self)}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class RuleSource:
    """
    Finds the rules behind decisions.

    :param config: as it was read at the start.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    def find_rule(
        self,
        reason: str,
        binding: Binding | None,
        caller: Agent | None = None,
        *,
        method: str = "",
        extra: Mapping[str, Any] = _NOTHING,
    ) -> Rule | None:
        """
        Return the rule that decided; None where no key does: the protocol itself, a state, or a plugin.

        :param reason: of the refusal, or :data:`APPROVAL`.
        :param binding: what was called, as far as it was found.
        :param method: what was asked for, where that is what was refused.
        :param extra: what the refusal adds to its record.
        """
        if reason in _OF_CALLER:
            return None if caller is None or not caller.file else self._file(caller.file, 0, "authority_scope")
        if reason == Reason.GRANT_REQUIRED and caller is not None:
            return self._grant(caller)
        dimension = extra.get("scope_dimension")
        if reason == Reason.SCOPE_VIOLATION and isinstance(dimension, Mapping):
            return self._dimension(str(dimension.get("dimension")))
        if reason == Reason.METHOD_NOT_ALLOWED:
            return self._of_method(method)
        if reason in _OF_HOST:
            return self._key(_OF_HOST[reason])
        name = _OF_BINDING.get(reason)
        if name is None or binding is None:
            return None
        if binding.origin:
            return self._of_endpoint(binding, "required_scopes" if name == "scopes" else name)
        return self._of_upstream(binding.extra, name)

    def later(self, reason: str, exchange: Exchange, extra: Mapping[str, Any]) -> Callable[[], Rule | None]:
        """Return a function that finds the rule behind a refusal; nothing is looked up before it is called."""
        binding, caller = exchange.binding, exchange.caller
        method = exchange.method
        return lambda: self.find_rule(reason, binding, caller, method=method, extra=extra)

    def _of_endpoint(self, binding: Binding, name: str) -> Rule:
        file, _, line = binding.origin.rpartition(":")
        if name == APPROVAL and name not in binding.lines and self._config.approvals.irreversible:
            return self._key(("approvals", "irreversible"))
        own = binding.lines.get(name, 0)
        at = own or (int(line) if line.isdigit() else 0)
        return self._file(file, at, f"{binding.method} {binding.path}: {name}", default=not own)

    def _of_upstream(self, extra: Mapping[str, Any], name: str) -> Rule | None:
        for member, section, table in _SECTIONS:
            if extra.get(member):
                entries: Sequence[Any] = getattr(getattr(self._config, section), table)
                found = [place for place, entry in enumerate(entries) if entry.name == extra[member]]
                return self._of_entry((section, table, found[0]), extra, name) if found else None
        return None

    def _of_entry(self, at: tuple[str, str, int], extra: Mapping[str, Any], name: str) -> Rule:
        """Return the configuration key of one tool, resource or prompt if it has one; otherwise that of its server."""
        whose = f'[[{at[0]}.{at[1]}]] "{extra.get("mcp_server") or extra.get("a2a_agent") or extra.get("acp_server")}"'
        key = name
        for member, overrides in _ONE:
            one = extra.get(member)
            if not one:
                continue
            if overrides != "tools" and name == "scopes":
                key = f"{overrides[:-1]}_scopes"
            places = ((*at, "pins", one),) if name == "pins" else ((*at, overrides, one, name),)
            for place in places:
                line, stands = self._config.place(*place)
                if stands:
                    return self._file(str(self._config.file), line, f"{whose} {' '.join(map(str, place[3:]))}")
        line, stands = self._config.place(*at, key)
        if name == APPROVAL and not stands and self._config.approvals.irreversible:
            return self._key(("approvals", "irreversible"))
        return self._file(str(self._config.file), line, f"{whose} {key}", default=not stands)

    def _grant(self, caller: Agent) -> Rule | None:
        """Return the first grant in host.toml that limits an agent; None if only recorded grants do."""
        for place, grant in enumerate(self._config.grant):
            if grant.agent in (caller.name, caller.agent_id):
                return self._key(("grant", place, "allow"), f'[[grant]] "{grant.agent}" allow')
        return None

    def _of_method(self, method: str) -> Rule | None:
        """Return the policy key that excludes a method; None if the policy allows the method."""
        given = self._config.policies.methods
        if method in given.disallow:
            return self._key(("policies", "methods", "disallow"))
        shut_out = given.allow != "*" and method not in given.allow
        return self._key(("policies", "methods", "allow")) if shut_out else None

    def _dimension(self, name: str) -> Rule | None:
        for place, rule in enumerate(self._config.policies.scope_dimensions):
            if rule.name == name:
                return self._key(("policies", "scope_dimensions", place), f'[[policies.scope_dimensions]] "{name}"')
        return None

    def _key(self, at: tuple[str | int, ...], said: str = "") -> Rule:
        line, stands = self._config.place(*at)
        said = said or f"[{'.'.join(map(str, at[:-1]))}] {at[-1]}"
        return self._file(str(self._config.file), line, said, default=not stands)

    def _file(self, file: str, line: int, key: str, *, default: bool = False) -> Rule:
        path = Path(file)
        folder = self._config.folder
        shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else file
        return Rule(file=shown, line=line, key=key, default=default)
