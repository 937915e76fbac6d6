"""Read, check and write JSON-RPC messages of MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.client.errors import ClientError
from agtphost.client.mcp import refusals
from agtphost.client.mcp.refusals import RPCError, ShownName
from agtphost.client.reply import Reply
from agtphost.http.refusals import TurnedAway
from agtphost.mcp.revisions import BATCHES
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.jsonslices import Encoded

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
"""Error codes of JSON-RPC."""

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
"""Error codes of MCP 2026-07-28."""

CANCELLED = -32800
"""The error code that ends the stream of a cancelled request of the handshake era."""

LONGEST_TEXT_ID = 256
"""Characters of a request's id."""

MOST_AT_ONCE = 100
"""Messages of a batch."""

RequestId = str | int


class McpFault(Exception):
    """The exception for an answer that is an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def document(self) -> dict[str, Any]:
        """The ``error`` member."""
        said: dict[str, Any] = {"code": self.code, "message": self.message}
        return said if self.data is None else {**said, "data": self.data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a client."""

    method: str = ""
    """The method; empty for an answer to a request of this server."""

    params: Mapping[str, Any]
    id: RequestId | None = None
    """The id; None for a notification."""

    result: Any = None
    error: Any = None

    @property
    def is_request(self) -> bool:
        """Whether it needs an answer."""
        return bool(self.method) and self.id is not None


def render_early_refusal(turned: TurnedAway) -> tuple[bytes, str]:
    """Return the JSON-RPC form of a refusal before any message was read, so that it answers no id."""
    facts = early_refusal_facts(turned)
    error = {"code": refusals.REFUSED, "message": refusals.sentence(facts), "data": {"agtp": facts}}
    return jsontext.encode({"jsonrpc": "2.0", "id": None, "error": error}), media_types.JSON


def early_refusal_facts(turned: TurnedAway) -> dict[str, Any]:
    """Return the facts of a refusal before any message was read, in the form of every other refusal."""
    said = {**turned.details, "status": turned.status, "reason": str(turned.reason), "explanation": turned.explanation}
    said |= {"remedy": turned.remedy, "audit_id": turned.audit_id}
    return {name: value for name, value in said.items() if value != ""}


def read(octets: bytes) -> Message:
    """
    Read the one message of a body, or of a line.

    :raises McpFault: it is not JSON, or not a single message.
    """
    return _message(_decode(octets))


def read_any(octets: bytes, revision: str) -> Sequence[Message]:
    """
    Read the messages of a body, or of a line: one, or those of a batch, where the revision has batches.

    :param revision: the conversation's; empty before its handshake.
    :raises McpFault: one of them is invalid, there are too many or none, or a handshake is among several.
    """
    decoded = _decode(octets)
    if revision != BATCHES or not isinstance(decoded, list):
        return (_message(decoded),)
    if not 0 < len(decoded) <= MOST_AT_ONCE:
        raise McpFault(INVALID_REQUEST, f"A batch has 1 to {MOST_AT_ONCE} messages.")
    found = [_message(each) for each in decoded]
    if any(message.method == "initialize" for message in found):
        raise McpFault(INVALID_REQUEST, "initialize cannot be part of a batch.")
    return found


def _decode(octets: bytes) -> Any:
    try:
        return jsontext.decode(octets)
    except jsontext.JSONTextError as error:
        raise McpFault(PARSE_ERROR, f"Parse error: {error}") from None


def _message(decoded: Any) -> Message:
    if not isinstance(decoded, dict) or decoded.get("jsonrpc") != "2.0":
        raise McpFault(INVALID_REQUEST, "This is not a single JSON-RPC message of version 2.0.")
    method, params, number = decoded.get("method"), decoded.get("params"), decoded.get("id")
    sound = "id" not in decoded or type(number) is int or (isinstance(number, str) and len(number) <= LONGEST_TEXT_ID)
    if not sound or not isinstance(params, dict | None):
        raise McpFault(INVALID_REQUEST, "The id must be a text or a whole number, and params an object.")
    if isinstance(method, str) and method:
        return Message(method=method, params=params or {}, id=number)
    if "method" in decoded or number is None or ("result" in decoded) == ("error" in decoded):
        raise McpFault(INVALID_REQUEST, "This is neither a request nor an answer to one.")
    return Message(params={}, id=number, result=decoded.get("result"), error=decoded.get("error"))


def encode_result(number: RequestId | None, value: Mapping[str, Any] | Encoded) -> bytes:
    """Return an answer."""
    if isinstance(value, Encoded):
        return jsontext.encode({"jsonrpc": "2.0", "id": number, "result": 0})[:-2] + value.octets + b"}"
    return jsontext.encode({"jsonrpc": "2.0", "id": number, "result": value})


def encode_error(number: RequestId | None, fault: McpFault) -> bytes:
    """Return an answer that is an error; its id is null if the request was unreadable."""
    return jsontext.encode({"jsonrpc": "2.0", "id": number, "error": fault.document})


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return a notification."""
    return jsontext.encode({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def encode_request(number: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    """Return a request to a client."""
    return jsontext.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def refusal_fault(reply: Reply, *, modern: bool, uri: str | None = None, name: ShownName | None = None) -> McpFault:
    """Return the error for a status outside 2xx: see :func:`agtphost.client.mcp.refusals.to_rpc_error`."""
    return _fault(refusals.to_rpc_error(reply, modern=modern, uri=uri, name=name))


def unreachable_fault(error: ClientError) -> McpFault:
    """Return the error for a host without a valid answer."""
    return _fault(refusals.unreachable(error))


def _fault(error: RPCError) -> McpFault:
    return McpFault(error.code, error.message, error.data)
