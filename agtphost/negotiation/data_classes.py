"""
The limits of negotiation: only data that the operator declares is negotiated (AGIS v01 section 8.3).

The data classes of a negotiated endpoint are those that its steps declare, not those that the proposal names. Steps
without data classes are negotiated only with ``[policies.synthesis] unclassified = true``.
"""

from __future__ import annotations

from agtphost.contract.recipes.graph import Needs
from agtphost.errors import Refusal
from agtphost.negotiation.settings import NegotiationSettings
from agtphost.vocabulary.reasons import Reason


def is_within(needs: Needs, settings: NegotiationSettings) -> bool:
    """Return whether every step works with declared data, or with data that needs no class here."""
    if needs.unclassified and not settings.policies.synthesis.unclassified:
        return False
    return needs.data_classes <= settings.data_classes.keys()


def is_open(needs: Needs, settings: NegotiationSettings) -> bool:
    """Return whether all data of the steps may be negotiated without credentials (core v08 section 7.5)."""
    if needs.unclassified or not needs.data_classes:
        return False
    return all(settings.data_classes[name].open for name in needs.data_classes)


def require_within(needs: Needs, settings: NegotiationSettings) -> None:
    """
    Require that a synthesis works only with declared data.

    :param needs: needs of the steps that would answer.
    :raises Refusal: 463 ``out-of-scope``, with the known data classes.
    """
    known = sorted(settings.data_classes)
    if not is_within(needs, settings):
        # Data of a class that [[data_class]] lacks stays out of scope with unclassified = true.
        cure = "or to set [policies.synthesis] unclassified" if not needs.data_classes else "in [[data_class]]"
        raise Refusal(
            Reason.OUT_OF_SCOPE,
            "The endpoints that would answer the proposal work with data outside of this host's data classes.",
            remedy="Propose for a data class of the manifest's data_manifest."
            if known
            else "Call the endpoints individually, or ask the operator to declare data_classes of the endpoints "
            f"{cure}.",
            details={"data_classes": known},
        )
