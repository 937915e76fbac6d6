"""Records as watchers and observers see them: signed, and on disk unless marked otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from agtphost.identity.encoding import decode
from agtphost.stores.record_search import READING_METHODS
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.display_names import display_name, name_execute_target, operator_name

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def members_of(jws: str) -> Mapping[str, Any]:
    """Return the signed members of a record, without verifying its signature."""
    found = jsontext.decode(decode(jws.split(".")[1]))
    return found if isinstance(found, dict) else {}


class ObservedRecord(NamedTuple):
    """A sealed Attribution-Record."""

    audit_id: str
    issued_at: str
    jws: str
    """As it is sent with the answer."""

    number: int = 0
    """Its place among all records, counted from 1; 0 where it is not durable."""

    chain: str = ""
    """Agent-ID of the responding agent; empty for the host's own chain, and outside every chain."""

    durable: bool = True
    """Whether it is in the store; what is summed up, and what could not be written, is not."""

    seconds: float | None = None
    """How long the call took that it ends, until it was sealed; None where it ends none, as an interim message."""

    caller: str = ""
    """The caller's label; empty where it names no agent that is known here."""

    members: Mapping[str, Any] = _NOTHING
    """What was signed, but for what :attr:`jws` alone has where these are empty. An operator's observer gets a copy."""

    label: str = ""
    """What was called, by a name that no caller chose; empty where nothing was found."""

    ruling: Callable[[], object] | None = None

    def payload(self) -> Mapping[str, Any]:
        """Return the record's members, decoded anew at each call."""
        return members_of(self.jws)

    @property
    def method(self) -> str:
        """Canonical where it was understood, else as it was sent."""
        return str(self.members.get("method", ""))

    @property
    def path(self) -> str:
        """Return the request's path, without its query."""
        return str(self.members.get("path", ""))

    @property
    def status(self) -> int:
        """AGTP status of the answer."""
        return int(self.members.get("status", 0))

    @property
    def reason(self) -> str:
        """Return why the call was refused; empty where it was not."""
        return str(self.members.get("reason", ""))

    @property
    def person(self) -> str:
        """The person that an identity provider's token named, whom the caller acts for; empty where none did."""
        return str(self.members.get("acting_principal_id", ""))

    @property
    def operator(self) -> str:
        """The name of the operator who called; empty where none did."""
        return operator_name(self.members)

    @property
    def caller_id(self) -> str:
        """Agent-ID of the caller; empty where there was none."""
        return str(self.members.get("caller_id", ""))

    @property
    def counted_caller(self) -> str:
        """
        The caller's label for counts; empty where there is none, and where only a header of a stranger named it.

        As in the index of records, a name counts on a host that believes names.
        """
        doubted = self.members.get("identity_assurance") == "header" and "caller_principal_id" not in self.members
        return "" if doubted else self.caller

    @property
    def carrier(self) -> str:
        """The carrier of the request, such as ``quic``; it is empty for TLS."""
        return str(self.members.get("extra", _NOTHING).get("carrier", ""))

    @property
    def task_id(self) -> str:
        """Return the Task-ID; empty where it had none."""
        return str(self.members.get("task_id", ""))

    @property
    def called(self) -> str:
        """Return the name of what was called: ``files.read_file``, ``QUERY /library/978``."""
        return display_name(self.members)

    @property
    def tool(self) -> str:
        """The tool or action that was called, such as ``files.read_file``; empty where it was something else."""
        return name_execute_target(self.members.get("extra", _NOTHING))

    @property
    def is_operator_read(self) -> bool:
        """Whether an operator only read something, as :func:`agtphost.stores.record_search.is_operator_read` says."""
        return self.method in READING_METHODS and "operator" in self.members and not self.tool

    @property
    def lacking(self) -> Sequence[str]:
        """The scopes that were missing, or were claimed in excess; empty where it was not refused for those."""
        extra = self.members.get("extra", _NOTHING)
        return extra.get("scopes") or () if self.reason else ()

    @property
    def rule(self) -> str:
        """
        Return the line of the host's files that caused the refusal, such as ``host.toml:31``; empty where no file did.
        """
        found = None if self.ruling is None else self.ruling()
        return "" if found is None else str(found)


class ObservedGroup(NamedTuple):
    """Records that were sealed together: in one transaction, or a single one outside every chain."""

    records: Sequence[ObservedRecord]
    """In the order of their numbers, as far as they are records of answers; may be empty."""

    seconds: float | None
    """How long its transaction took; None outside every chain."""
