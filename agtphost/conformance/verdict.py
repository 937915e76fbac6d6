"""How a case ends that does not pass, and what cases need."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Failure(Exception):
    """
    The target does not do what a requirement says; the message says what it did instead.

    :param cause: what other cases may fail of as well, such as one refusal; empty: the message.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Inapplicable(Exception):
    """The target is such that the case cannot be observed; the message completes ``needs ...``."""


class Need(Enum):
    """
    What a case needs beyond a connection.

    The value is what is needed, and the option of the command that supplies
    it; no option where the target itself has it or has it not.
    """

    AGENT = ("an agent", "--cert or --agent-id")
    CERTIFICATE = ("an agent's certificate", "--cert")
    SECOND = ("a second agent's certificate", "--second-cert")
    REGISTRAR = ("the Genesis issuer's certificate", "--registrar-cert")
    EXPENDABLE = ("an agent whose life may be ended", "--destructive --expendable")
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

    @property
    def what(self) -> str:
        """In words."""
        return self.value[0]

    @property
    def option(self) -> str:
        """The option that supplies it; empty where none does."""
        return self.value[1]


def fail(message: str) -> NoReturn:
    """The case has failed. :raises Failure: always."""
    raise Failure(message)


def expect(holds: object, message: str, cause: str = "") -> None:
    """:raises Failure: with ``message`` and ``cause``, unless ``holds``."""
    if not holds:
        raise Failure(message, cause)
