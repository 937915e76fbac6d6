"""Bindings of what is stated about verifications: :mod:`agtphost.methods.verification`."""

from __future__ import annotations

from agtphost.contract.binding import Binding
from agtphost.contract.reserved import VERIFYING
from agtphost.host.foundation import Foundation
from agtphost.identity.peer import Assurance
from agtphost.methods.verification import Verifications

STATEMENTS = {
    "CONFIRM": "Put on record what a verification of the evidence came to, for operators.",
    "QUERY": "What the last verification of the evidence came to, and whose word it is; for operators.",
}


def verifying_bindings(on: Foundation) -> tuple[Binding, ...]:
    """What AGTP answers about verifications."""
    handler = Verifications(on.evidence.held, on.authorization, on.seconds)
    return tuple(
        # People are known by their certificate's key, and are no agents.
        Binding.native(
            *place,
            handler,
            STATEMENTS[place[0]],
            Assurance.NONE,
            changes=place[0] == "CONFIRM",
            server_level=True,
        )
        for place in VERIFYING
    )
