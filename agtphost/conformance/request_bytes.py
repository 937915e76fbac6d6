"""Requests as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable

JSON = "application/vnd.agtp+json"

Field = tuple[str, str]


def encode(value: object) -> bytes:
    """Encode a value as JSON; return bytes unchanged."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def request(
    method: str,
    target: str = "/",
    body: object = None,
    fields: Iterable[Field] = (),
    *,
    content_type: str | None = JSON,
) -> bytes:
    """
    Return one request.

    :param body: bytes, or a value that is sent as JSON; None for no body.
    :param content_type: None to omit it.
    """
    octets = b"" if body is None else encode(body)
    lines = [f"AGTP/1.0 {method} {target}", *(f"{name}: {value}" for name, value in fields)]
    if body is not None and content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines.append(f"Content-Length: {len(octets)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + octets


class Envelope(dict[str, object]):
    """A body of core v08 section 5.7; a server without envelopes gets only its parameters."""


def make_envelope(method: str, parameters: object) -> Envelope:
    """Return the envelope of core v08 section 5.7."""
    return Envelope({"method": method, "parameters": parameters})
