"""What a wire case is, and how the tables of cases are written."""

from __future__ import annotations

from dataclasses import dataclass

LINE = "invalid-request-line"
RESPONSE_LINE = "invalid-response-line"
ENDING = "invalid-line-ending"
FIELD = "invalid-header-field"
LENGTH = "invalid-content-length"
NO_LENGTH = "content-length-missing"
ENCODING = "transfer-encoding-refused"


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message that the octets hold."""

    first: tuple[object, ...]
    """Of a request: method, path, query (None without ``?``). Of a response: code, text."""

    fields: tuple[tuple[str, str], ...] = ()
    """Every field, in order, as name and value without surrounding white space."""

    body: bytes = b""
    """The body."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one sequence of octets means."""

    id: str
    """Unique; starts with the family of the test programme."""

    source: str
    """The requirement or section that decides."""

    octets: bytes
    """What the peer sends."""

    messages: tuple[Message, ...] = ()
    """The complete messages, in order."""

    refusal: str = ""
    """The reason of the refusal that ends them; empty if nothing is malformed."""

    waiting: str = ""
    """``header`` or ``body`` where the octets end within a message; empty where they end with one."""

    role: str = "server"
    """The side under test: ``server`` reads requests, ``client`` responses."""

    strict: bool = False
    """Whether ``strict_request_line`` is set."""


class Table(list[Case]):
    """Cases in the making."""

    def case(
        self,
        id: str,
        source: str,
        octets: bytes,
        refusal: str = "",
        *messages: Message,
        waiting: str = "",
        role: str = "server",
        strict: bool = False,
    ) -> None:
        """Add one case."""
        self.append(
            Case(
                id=id,
                source=source,
                octets=octets,
                refusal=refusal,
                messages=messages,
                waiting=waiting,
                role=role,
                strict=strict,
            )
        )


def request(
    method: str = "QUERY",
    path: str = "/",
    query: str | None = None,
    *fields: tuple[str, str],
    body: bytes = b"",
) -> Message:
    """A request as it should come out."""
    return Message(first=(method, path, query), fields=fields, body=body)


def name_of(octet: int) -> str:
    """A readable name for an octet in an id."""
    return chr(octet) if chr(octet).isalnum() and octet < 0x80 else f"x{octet:02x}"


ZERO = ("Content-Length", "0")
