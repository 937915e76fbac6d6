"""Who may read signed records: INSPECT, and every other method whose answer has records (core v08 section 7.2.4)."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason


class ReadACL(Enum):
    """The access list modes for records: core v08 section 7.2.4."""

    PUBLIC = "public"
    """Any caller."""

    AGENT_ONLY = "agent_only"
    """Callers with a certificate, for records whose subject they are; and operators."""

    OPERATOR_ONLY = "operator_only"
    """Operators, in any role."""


class RecordAccess:
    """
    Decides who reads records.

    :param acl: the read mode, ``[audit] read_acl``.
    :param authorization: tells whom ``operator_only`` admits.
    """

    def __init__(self, acl: ReadACL, authorization: Authorization) -> None:
        self._acl = acl
        self._authorization = authorization

    def require_reader(self, context: BuiltInContext) -> None:
        """
        Admit who may read any records at all; whose record it is, is decided once the record is known.

        :raises Refusal: 401 or 403, naming the mode.
        """
        if self._acl is ReadACL.PUBLIC or self._authorization.views(context):
            return
        certificate = context.peer.certificate if context.peer is not None else None
        if self._acl is ReadACL.AGENT_ONLY:
            if context.assurance is not Assurance.CERTIFICATE:
                raise self._refusal(Reason.ACL_ANONYMOUS_BLOCKED)
        elif certificate is None:
            raise self._refusal(Reason.ACL_ANONYMOUS_BLOCKED)
        else:
            raise self._refusal(Reason.ACL_NOT_PERMITTED)

    def require_subject(self, context: BuiltInContext, subjects: Collection[str]) -> None:
        """
        Admit, under ``agent_only``, the subjects of what is read.

        :param subjects: Agent-IDs.
        :raises Refusal: 403, naming the mode.
        """
        if self._acl is not ReadACL.AGENT_ONLY or self._authorization.views(context):
            return
        if context.caller is None or context.caller.agent_id not in subjects:
            raise self._refusal(Reason.ACL_NOT_PERMITTED)

    def _refusal(self, reason: Reason) -> Refusal:
        return Refusal(
            reason,
            f"This host shows records in the mode {self._acl.value} here.",
            remedy="Connect with the client certificate that this mode asks for.",
            details={"read_acl": self._acl.value},
        )
