"""
Requests about the operators' page: AUTHORIZE and QUERY on ``/page``, QUERY on ``/page/feed``, REVOKE on
``/page/sessions``, and others.

Browsers cannot show the certificates of operators, whose keys are Ed25519. An operator requests a link over AGTP
instead, and the page then acts with that very certificate. Each view begins with QUERY: so the page is open only to
those who may look at that moment, and every look is on record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from zope.interface import implementer

from agtphost.config.admin import Admin
from agtphost.contract.reserved import PAGE
from agtphost.errors import not_found
from agtphost.features import Services
from agtphost.handlers import parameters
from agtphost.handlers.authorization import fingerprint, is_registrar
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction, OperatorRole
from agtphost.page.entrance import LINK_SECONDS, Entrance
from agtphost.vocabulary import times
from agtphost.vocabulary.reasons import Reason

LINK, LOOK, FEED, END, RESTART, END_SESSIONS = PAGE

ENDER = "page:operate"
"""The scope of agents that may end calls of others, and restart servers."""

SELF, ENTER = "self", "page:enter"
"""Subject and scope of AUTHORIZE here."""

OPERATOR = "operator"
"""The name of the role administrator in the member ``roles``."""

PERSON = "person"
"""The role of people of ``[notify.people]``: they are shown what is addressed to them, and nothing else."""

MOMENTS = ("opened", "closed")
"""Of a live feed, which is not recorded line by line."""


@implementer(IBuiltInHandler)
class PageAccess:
    """
    The handler of requests about the operators' page.

    :param entrance: makes links and ends sessions.
    """

    kind = "built_in"

    def __init__(self, services: Services, settings: Admin, entrance: Entrance) -> None:
        self._authorization = services.authorization
        self._directory = services.directory
        self._host = services.host
        self._now = services.clock
        self._entrance = entrance
        self._writes = settings.writes
        # By REPLY an escalation is answered.
        self._replies = "REPLY" in services.config.methods.names

    def handle(self, context: BuiltInContext) -> Answer:
        roles = self._roles(context)
        if context.method == END[0]:
            return self._end_call(context)
        if context.method == RESTART[0]:
            return self._restart_upstream(context)
        if context.method == END_SESSIONS[0]:
            return self._end_all_sessions(context)
        if context.method == LINK[0]:
            return self._make_link(context)
        if context.path == FEED[1]:
            if roles == (PERSON,):
                raise self._authorization.refuse(
                    context,
                    OperatorAction.READ,
                    "Only operators and registrars may open the feed, because it shows the calls of others.",
                )
            moment = parameters.choice(context.input, "moment", MOMENTS)
            return Answer(result={"moment": moment}, extra={"page_feed": moment})
        return Answer(result=self._person(context, roles))

    def _roles(self, context: BuiltInContext) -> tuple[str, ...]:
        """
        Return the caller's roles.

        :raises agtphost.errors.Refusal: 403 for those to whom the page shows nothing.
        """
        found = []
        operator = self._authorization.operator(context)
        if operator is not None:
            found.append(OPERATOR if operator.role is OperatorRole.ADMINISTRATOR else operator.role.label)
        if any(is_registrar(context.peer, agent) for agent in self._directory.list_known()):
            found.append("registrar")
        if self._authorization.is_person(context.peer):
            found.append(PERSON)
        if not found:
            raise self._authorization.refuse(
                context,
                OperatorAction.READ,
                "The page is for operators, registrars, and people whom [notify.people] lists.",
            )
        return tuple(found)

    def _end_call(self, context: BuiltInContext) -> Answer:
        self._authorization.require(context, ENDER, "Only operators may end the calls of others.")
        known = str(context.path_parameters.get("response_id", ""))
        if not self._host.end_call(known):
            raise not_found(
                Reason.TARGET_UNKNOWN,
                "No waiting call has that name.",
                remedy="The call has ended, or it was made on another host.",
            )
        return Answer(result={"response_id": known, "ended": True}, extra={"ended_call": known})

    def _restart_upstream(self, context: BuiltInContext) -> Answer:
        self._authorization.require(context, ENDER, "Only operators may restart servers behind this host.")
        known = str(context.path_parameters.get("upstream", ""))
        if not self._host.restart_upstream(known):
            raise not_found(Reason.TARGET_UNKNOWN, "The upstream is not known.", remedy="INSPECT target=upstreams.")
        return Answer(result={"upstream": known, "restarted": True}, extra={"restarted_upstream": known})

    def _end_all_sessions(self, context: BuiltInContext) -> Answer:
        self._authorization.require(context, ENDER, "Only administrators may end the sessions of the page.")
        sessions, links = self._entrance.end_all()
        ended = {"sessions": sessions, "links": links}
        return Answer(result=ended, extra={"page_sessions_ended": ended})

    def _make_link(self, context: BuiltInContext) -> Answer:
        certificate = context.peer.certificate if context.peer is not None else None
        assert certificate is not None, "the role was derived from it"
        # AUTHORIZE grants nothing here but a link, and only to the caller itself.
        agent_id = "" if context.caller is None else context.caller.agent_id
        parameters.choice(context.input, "subject", tuple(filter(None, (SELF, certificate.fingerprint, agent_id))))
        parameters.choice(context.input, "resource", (LINK[1],))
        parameters.choice(context.input, "scope", (ENTER,))
        expires = times.stamp(self._now() + LINK_SECONDS)
        return Answer(result={"url": self._entrance.issue_link(certificate), "expires_at": expires, "uses": 1})

    def _person(self, context: BuiltInContext, roles: Collection[str]) -> Mapping[str, Any]:
        acts = self._writes and bool({OPERATOR, "approver", "registrar", PERSON}.intersection(roles))
        caller, operator = context.caller, self._authorization.operator(context)
        return {
            "key": fingerprint(context.peer),
            "agent": "" if caller is None else caller.display_name,
            "operator": "" if operator is None else operator.name,
            "person": self._authorization.person_name(context.peer),
            "role": "" if operator is None else operator.role.label,
            "roles": list(roles),
            "writes": self._writes,
            "may": {
                # Whose it is decides each of these once more when it is asked for.
                "decide": acts,
                "reply": acts and self._replies,
                "lifecycle": self._writes and bool({OPERATOR, "registrar"}.intersection(roles)),
                "operate": self._writes and OPERATOR in roles,
                "approve": self._writes and OPERATOR in roles,
                "grant": self._writes
                and (
                    OPERATOR in roles
                    or ("registrar" in roles and not self._authorization.operators.lists_administrator)
                ),
                "reload": self._writes and self._authorization.configures(context, self._directory.list_known()),
                "try": self._writes and self._authorization.may(context, OperatorAction.TRY) and caller is None,
            },
        }
