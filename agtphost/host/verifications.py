"""Bind the methods about verifications of the evidence; see :mod:`agtphost.methods.verification`."""

from __future__ import annotations

from agtphost.contract.binding import Binding
from agtphost.contract.reserved import VERIFYING
from agtphost.host.services import HostServices
from agtphost.identity.peer import Assurance
from agtphost.methods.verification import Verifications

STATEMENTS = {
    "CONFIRM": "Record the result of a verification of the evidence; for operators.",
    "QUERY": "The result of the last verification of the evidence, and who stated it; for operators.",
}


def verification_bindings(services: HostServices) -> tuple[Binding, ...]:
    """Return the bindings of the methods about verifications."""
    handler = Verifications(services.evidence.held, services.authorization, services.seconds)
    return tuple(
        # People are known by their certificate's key and are not agents.
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
