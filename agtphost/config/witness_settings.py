"""Hosts that witness this one's log, and logs that this one witnesses."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from agtphost.config.values import FilePath, Fingerprint, Items, Line, Section, Token
from agtphost.vocabulary import uris


def _host_uri(value: str) -> str:
    try:
        parsed = uris.parse(value)
    except ValueError as error:
        raise ValueError(f"must be a URI such as agtp://witness.example.com: {error}") from None
    if parsed.form not in (uris.Form.SERVER, uris.Form.DOMAIN) or parsed.query is not None:
        raise ValueError("must be the URI of a host, such as agtp://witness.example.com")
    return value


HostURI = Annotated[str, AfterValidator(_host_uri)]


class WitnessHost(Section):
    """An entry of ``[[audit.witness_host]]``: how one of ``[audit] witnesses`` is reached."""

    uri: HostURI = ""
    """The same text as in ``witnesses``. Required."""

    cert: FilePath | None = None
    """The client certificate that this host shows; None shows none."""

    key: FilePath | None = None
    """The certificate's private key."""

    ca: FilePath | None = None
    """Authority of the witness's certificate, where it is not a public one."""

    signing_key: Line | None = None
    """What it cosigns with: base64url, or ``file:PATH``; None asks the witness itself, over TLS."""


class WitnessedLogSection(Section):
    """An entry of ``[[witness.logs]]``: a log that this host witnesses."""

    origin: Token = ""
    """The ``server_id`` of the host whose log it is. Required."""

    key: Line = ""
    """That host's public signing key: base64url, or ``file:PATH``. Required; entries of one origin add up."""

    client: Fingerprint | None = None
    """Key fingerprint of the client certificate that may submit; None takes checkpoints by their signature alone."""


class WitnessSection(Section):
    """The section ``[witness]``: the logs of other hosts that this one witnesses."""

    logs: Items[WitnessedLogSection] = ()
