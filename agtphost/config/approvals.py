"""``[approvals]``: which calls wait for a person, and who decides about them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from agtphost.config.values import Items, Line, Seconds, Section
from agtphost.vocabulary import scopes

OPERATORS = "operators"
"""In ``by``: all that connect with a key of ``[audit] operators``."""

REQUIRED = "required"
"""The one value of ``approval``."""

HIDDEN = ("password", "token", "secret")
"""What the name of a member contains that approvers are not shown, unless ``show`` names it."""


def _approver(value: str) -> str:
    if value != OPERATORS and not scopes.is_token(value):
        raise ValueError(f'holds {value[:64]!r}, which is neither "operators" nor a scope such as escalation:confirm')
    return value


class ApprovalsSection(Section):
    """The section ``[approvals]``: which calls wait for a person, and who decides about them."""

    irreversible: bool = False
    """Every endpoint, tool and agent whose impact is ``irreversible`` needs an approval; else those that say so."""

    ttl: Seconds = 900.0
    """How long an approval can be decided on; afterwards it has expired."""

    use_within: Seconds = 300.0
    """How long after the decision the call can be made."""

    by: Annotated[Items[Annotated[str, AfterValidator(_approver)]], Field(min_length=1)] = (OPERATORS,)
    """Who decides: ``operators``, those of ``[audit] operators``; or scopes, of which an agent holds one."""

    show: Items[Line] | None = None
    """
    The members of the input that an approver sees; None: all but those whose names contain ``password``, ``token`` or
    ``secret``, at any depth. What is not shown is bound all the same.
    """

    def document(self) -> dict[str, Any]:
        """Return the policy that an approval is bound to: under another policy, it does not count."""
        return {
            "ttl": self.ttl,
            "use_within": self.use_within,
            "by": list(self.by),
            "show": None if self.show is None else list(self.show),
        }

    def requires(self, declared: str | None, impact: str) -> bool:
        """
        Return whether a call needs an approval.

        :param declared: what its own entry says: ``approval``.
        :param impact: ``informational``, ``reversible`` or ``irreversible``.
        """
        return declared == REQUIRED or (self.irreversible and impact == "irreversible")
