"""A record as observers see it: signed, and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.identity.encoding import decode
from agtphost.vocabulary import jsontext


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRecord:
    """One Attribution-Record that was committed."""

    audit_id: str
    issued_at: str
    jws: str
    """As it is sent with the answer."""

    def payload(self) -> Mapping[str, Any]:
        """Its members, decoded anew at each call."""
        found = jsontext.decode(decode(self.jws.split(".")[1]))
        return found if isinstance(found, dict) else {}
