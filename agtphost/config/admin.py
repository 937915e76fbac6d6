"""``[admin]``: the operators' page."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from agtphost.config.faults import ConfigFault
from agtphost.config.http import HttpSection, listener_of
from agtphost.config.upstreams import web_url
from agtphost.config.values import Fingerprint, Items, Seconds, Table, form
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.tomltext import Location


def _base(value: Any) -> str:
    text = web_url(value)
    parts = urlsplit(text)
    if parts.scheme != "https" or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must be an https URL without a path: the page's cookie is valid for the whole host")
    return text.rstrip("/").lower()


SAID = 'under [admin.browsers] write "SHA-256 of the certificate" = "fingerprint of the operator\'s key"'


def _of_certificate(value: Any) -> Any:
    """
    Return a fingerprint without colons and in lower case, also as ``openssl x509 -fingerprint -sha256`` writes it.
    """
    return value.replace(":", "").lower() if isinstance(value, str) else value


CertificateDigest = Annotated[
    str,
    BeforeValidator(_of_certificate),
    form(is_agent_id, "holds {}, which is not the SHA-256 of a certificate: 64 hexadecimal digits"),
]


def _require_table(value: Any) -> Any:
    """Refuse a list: it would not say which operator each certificate belongs to."""
    if isinstance(value, list):
        raise ValueError(f"must map each certificate to an operator: {SAID}")
    return value


class Admin(HttpSection):
    """The section ``[admin]``: a page in the browser for the people who run the host, entered by ``agtp page``."""

    url: Annotated[str, BeforeValidator(_base)] | None = None
    """
    How browsers reach it, where that is not what ``listen`` says: behind a proxy, or on another interface than
    loopback.
    """

    writes: bool = True
    """Whether anything can be done there; false: everything can be looked at, and nothing else."""

    viewers: Items[Fingerprint] = ()
    """SHA-256 of public keys. Each is that of a viewer without a name: ``[[operator]]`` gives names and roles."""

    browsers: Annotated[Table[CertificateDigest, Fingerprint], BeforeValidator(_require_table)] = {}
    """
    ECDSA certificates that browsers show in place of a link, by SHA-256, each with the key fingerprint of the operator,
    viewer or person of ``[notify.people]`` whose it is.
    """

    idle: Seconds = 1_800.0
    """The idle time after which a session ends."""

    @property
    def base(self) -> str:
        """The address at which browsers find the page, without a slash at the end."""
        if self.url is not None:
            return self.url
        listener = listener_of(self.listen or "")
        address = listener.interface.replace("\\", "") or "localhost"
        return f"https://{f'[{address}]' if ':' in address else address}:{listener.port}"


def _browser_faults(given: Admin, operators: Collection[str] | None, people: Collection[str]) -> Iterator[ConfigFault]:
    where: Location = ("admin", "browsers")
    if given.browsers and given.listen is not None and not listener_of(given.listen).secure:
        yield ConfigFault(
            location=where,
            message="needs TLS on this host: behind a proxy, browsers present their certificates to the proxy",
            hint='such as listen = "ssl:4481:interface=127.0.0.1"',
        )
    if operators is None:
        return
    known = {*operators, *given.viewers, *people}
    for digest, person in given.browsers.items():
        if person not in known:
            message = f"stands for {person[:16]}..., whom none of [[operator]], [audit], [admin], [notify.people] lists"
            yield ConfigFault(location=(*where, digest), message=message, hint="remove it, or name one of them")


def admin_faults(
    given: Admin, operators: Collection[str] | None, people: Collection[str] = ()
) -> Iterator[ConfigFault]:
    """
    Check rules that span several keys of ``[admin]``, besides those of all HTTP listeners.

    :param operators: the keys of ``[[operator]]`` and of ``[audit] operators``;
        None where one is known by another digest alone.
    :param people: the keys of ``[notify.people]``.
    """
    where: Location = ("admin",)
    yield from _browser_faults(given, operators, people)
    if (given.certificate is None) != (given.key is None):
        yield ConfigFault(
            location=where, message="needs both certificate and key, or neither", hint="leave certificate and key out"
        )
    if given.listen is None or given.url is not None:
        return
    listener = listener_of(given.listen)
    if listener.secure and not listener.local:
        yield ConfigFault(
            location=(*where, "url"),
            message="is missing: other machines reach the page, so it needs to know its own name",
            hint='such as url = "https://ops.example.com"; or listen = "ssl:4481:interface=127.0.0.1"',
        )
    elif listener.local and not listener.secure:
        yield ConfigFault(
            location=(*where, "url"),
            message="is missing: without TLS the page is behind a proxy, so it needs to know its own name",
            hint='such as url = "https://ops.example.com"; or listen = "ssl:4481:interface=127.0.0.1"',
        )
