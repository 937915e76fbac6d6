"""The exceptions of cases that do not pass, and the needs of cases."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Failure(Exception):
    """
    The target does not meet a requirement; the message says what it did instead.

    :param cause: a cause that other failures may share, such as one refusal; empty: the message.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Inapplicable(Exception):
    """The case cannot be observed at this target; the message completes ``needs ...``."""


class Need(Enum):
    """
    A need of a case beyond a connection.

    The value is a description, and the option of the command that supplies it. The option is empty for what depends on
    the target.
    """

    AGENT = ("an agent", "--cert or --agent-id")
    CERTIFICATE = ("an agent's certificate", "--cert")
    SECOND = ("a second agent's certificate", "--second-cert")
    REGISTRAR = ("the Genesis issuer's certificate", "--registrar-cert")
    EXPENDABLE = ("an agent that may be revoked", "--destructive --expendable")
    SIGNING_KEY = ("the key that the server signs with", "--signing-key")
    SIGNATURES = ("records that are signed", "")
    MANIFEST = ("a manifest", "")
    ENDPOINT = ("an endpoint that the agent may call without effects", "")
    SCHEMA = ("such an endpoint whose input schema declares members", "")
    SCOPED = ("an endpoint with required_scopes that the agent holds, and a scope that it does not require", "")
    FORBIDDEN = ("an endpoint whose required_scopes the agent lacks", "")
    GUARDED = ("an endpoint that asks for more than an Agent-ID", "")
    TEMPLATE = ("a callable endpoint with a path parameter", "")
    NAMED_ERROR = ("an endpoint that declares errors", "")
    HOSTED = ("a hosted agent that is disclosed", "")
    GENESIS = ("a hosted agent with a Genesis", "")
    TOOL = ("a hosted tool that the agent may call", "")
    ALIAS = ("a method alias", "")
    REDIRECT = ("a method redirect", "")
    BYTE_STREAM = ("a byte stream of TCP, which a run over QUIC has not", "")
    QUIC = ("QUIC", "--quic")

    @property
    def what(self) -> str:
        """The description of the need."""
        return self.value[0]

    @property
    def option(self) -> str:
        """The option that supplies it; empty if there is none."""
        return self.value[1]

    @property
    def is_of_carrier(self) -> bool:
        """Whether only the choice between TLS and QUIC meets it."""
        return self in (Need.BYTE_STREAM, Need.QUIC)


def fail(message: str) -> NoReturn:
    """
    Fail the case.

    :raises Failure: always.
    """
    raise Failure(message)


def expect(holds: object, message: str, cause: str = "") -> None:
    """
    Require that ``holds`` is true.

    :raises Failure: it is false; the exception has ``message`` and ``cause``.
    """
    if not holds:
        raise Failure(message, cause)
