"""
Configuration reload without a restart: ACTIVATE on ``/configuration``.

Operators request it; where none are listed, the issuers of agents of this host. The answer comes once the new
configuration is in force, or is a refusal with everything that is wrong; both are on record in the host's own chain
too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization, fingerprint
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.identity.agents import Agent
from agtphost.vocabulary.reasons import Reason

Reload = Callable[[str, str, bool, Mapping[str, str] | None], Awaitable[Mapping[str, Any]]]
"""
Reloads the configuration. The arguments are the SHA-256 of the asking key, the Agent-ID of an asking agent, whether it
is only tried, and the asking operator as records name one.

What became of it has ``taken``, ``waiting``, ``problems`` and more.
"""


class ReloadRequests:
    """The function that reloads the configuration, set once the host is assembled."""

    def __init__(self) -> None:
        self.reload: Reload | None = None


@implementer(IBuiltInHandler)
class ConfigurationAccess:
    """
    Answers who may change the host's configuration.

    :param known: every agent that the host knows.
    """

    kind = "built_in"

    def __init__(
        self, requests: ReloadRequests, authorization: Authorization, known: Callable[[], Iterable[Agent]]
    ) -> None:
        self._requests = requests
        self._authorization = authorization
        self._known = known

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Take what was changed, or only look whether it could be.

        :raises Refusal: 403 for everybody else; 422 where something is wrong with what was found.
        """
        if not self._authorization.configures(context, self._known()):
            raise self._authorization.refuse(
                context, OperatorAction.RELOAD, "Only administrators reload the configuration of this host."
            )
        check = context.input.get("check", False)
        if not isinstance(check, bool):
            raise parameters.invalid("check", "check is not true or false.", "Send true or false.")
        reload = self._requests.reload
        assert reload is not None, "no request comes before the host is assembled"
        agent_id = "" if context.caller is None else context.caller.agent_id
        operator = self._authorization.operators.record_member(context.peer)
        told = dict(await reload(fingerprint(context.peer), agent_id, check, operator))
        if told["problems"]:
            said = "The host refuses the new configuration, and nothing has changed."
            raise Refusal(Reason.CONFIGURATION_REFUSED, said, details=told)
        extra = {name: told[name] for name in ("generation", "digest") if told.get(name)}
        return Answer(result={**told, "checked": check}, extra={"configuration": {**extra, "checked": check}})
