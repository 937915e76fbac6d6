"""
Put every HTTP surface on its listener: sections with the same ``listen`` share one.

Each surface is built elsewhere. Where it is served, by which names, and with which certificate, is decided here for all
of them, from :func:`agtphost.config.surfaces.surfaces`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from agtphost.config import Config, problems_in
from agtphost.config.http import Listener
from agtphost.config.surfaces import Surface, http_faults, surfaces
from agtphost.dispatch.gates.limits import Allowances, address_origin
from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import read_mandates
from agtphost.host.listener import http_limits
from agtphost.http.cross_origin import PER_MINUTE, CrossOrigin
from agtphost.http.http_service import HttpService
from agtphost.http.mounts import Mount
from agtphost.http.refusals import RefusalRecorder
from agtphost.http.served_surface import ServedSurface
from agtphost.http.tls import ListenerTls, TlsCreator, ask_browsers, https_options, names_of
from agtphost.logs.access_log import access_line_writer
from agtphost.protocols.tls import ServerTLS
from agtphost.vocabulary.origins import origin_of

BURST = 30.0
"""Preflights that one address may send in a burst, in seconds of its usual rate."""


STANDBY_DRAIN = 0.5
"""Seconds that probes of a standby get for their answers once it takes over."""


def service_name(listener: Listener) -> str:
    """Return the name of a listener's service."""
    return f"http {listener}"


def http_services(
    reactor: Any,
    config: Config,
    served: Iterable[ServedSurface],
    door: RefusalRecorder,
    https: Mapping[str, ListenerTls] = MappingProxyType({}),
) -> Iterator[HttpService]:
    """
    Yield one service for each listener.

    :param served: for every surface of the configuration.
    :param door: records the requests that a surface refuses.
    :param https: TLS that was read before, by the name of the service; other files are read now.
    :raises agtphost.errors.ConfigurationError: surfaces overlap, or a certificate or endpoint cannot be used.
    """
    # Reading the file has found these already; a rehearsal continues after that and reports them only once.
    problems = problems_in(config.file, http_faults(config))
    if problems:
        raise ConfigurationError(problems)
    by_name = {each.name: each for each in served}
    access = access_line_writer() if config.log.access else None
    for listener, sharing in _by_listener(config).items():
        tls = https.get(service_name(listener)) or _tls(config, listener, sharing)
        mounts: list[Mount] = []
        for surface in sharing:
            mounts += _mounts(surface, by_name[surface.name], door)
        service = HttpService(
            reactor,
            sharing[0].listen,
            None if tls is None else tls.creator,
            mounts,
            [by_name[surface.name].what for surface in sharing],
            http_limits(config),
            names=() if tls is None else tls.names,
            access=access,
            enders=[end for surface in sharing if (end := by_name[surface.name].end_streams) is not None],
        )
        service.setName(service_name(listener))  # type: ignore[no-untyped-call]
        yield service


def standby_service(reactor: Any, config: Config, name: str, resource: Any) -> HttpService | None:
    """
    Return the service of the one surface that a standby serves; None without that surface.

    It gives its port up quickly: the listeners of a takeover need it.

    :param name: the surface's.
    :param resource: serves in its place.
    :raises agtphost.errors.ConfigurationError: its certificate or endpoint cannot be used.
    """
    for listener, sharing in _by_listener(config).items():
        for surface in sharing:
            if surface.name == name:
                tls = _tls(config, listener, sharing)
                served = ServedSurface(name=name, what="the state of this standby", resource=resource)
                limits = http_limits(config).model_copy(update={"drain_timeout": STANDBY_DRAIN})
                return HttpService(
                    reactor,
                    surface.listen,
                    None if tls is None else tls.creator,
                    list(_mounts(surface, served, None)),
                    [served.what],
                    limits,
                    names=() if tls is None else tls.names,
                )
    return None


def reload_tls(config: Config) -> dict[str, ListenerTls]:
    """
    Return the TLS side of every listener that has one, from the present files, by the names of their services.

    :raises agtphost.errors.ConfigurationError: a file cannot be used.
    """
    made = {}
    for listener, sharing in _by_listener(config).items():
        tls = _tls(config, listener, sharing)
        if tls is not None:
            made[service_name(listener)] = tls
    return made


def _by_listener(config: Config) -> dict[Listener, list[Surface]]:
    sharing: dict[Listener, list[Surface]] = {}
    for surface in surfaces(config):
        sharing.setdefault(surface.listener, []).append(surface)
    return sharing


def _cross_origin(surface: Surface, served: ServedSurface) -> CrossOrigin | None:
    origins = frozenset(surface.section.origins)
    if served.cross_origin is None or not origins:
        return None
    allowances = Allowances(PER_MINUTE, BURST)

    def wait(address: str) -> float:
        return allowances.take(address_origin(address), time.monotonic())

    return CrossOrigin(origins=origins, rules=served.cross_origin, wait=wait)


def _mounts(surface: Surface, served: ServedSurface, door: RefusalRecorder | None) -> Iterator[Mount]:
    reached = urlsplit(surface.url or "")
    origin = origin_of(surface.url) if surface.url and served.pages else ""
    cross_origin = _cross_origin(surface, served)
    varying = () if cross_origin is None else (("Vary", "Origin"),)
    for path in surface.paths:
        yield Mount(
            surface=surface.name,
            section=".".join(map(str, surface.location)),
            path=path,
            resource=served.resource,
            hosts=frozenset(surface.section.hosts),
            url_host=reached.netloc.lower(),
            origins=frozenset((*surface.section.origins, *((origin,) if origin else ()))),
            pages=served.pages,
            own_origin=served.home,
            fields=(*served.fields, *varying),
            cross_origin=cross_origin,
            door=door,
        )


def _tls(config: Config, listener: Listener, sharing: Sequence[Surface]) -> ListenerTls | None:
    if not listener.secure:
        return None
    given = sharing[0].section
    certificate, key = given.certificate or config.tls.certificate, given.key or config.tls.key
    names = names_of(certificate)
    if not any(surface.client_certificates for surface in sharing):
        options = https_options(certificate, key)
        if any(surface.browser_certificates for surface in sharing):
            options = ask_browsers(options)
        return ListenerTls(creator=TlsCreator(options), names=names)
    own = {"certificate": certificate, "key": key, "client_auth": "optional", "server": ()}
    tls = ServerTLS.load(config.tls.model_copy(update=own), read_mandates(config))
    return ListenerTls(creator=_HttpsWithClients(tls), names=names)


@implementer(IOpenSSLServerConnectionCreator)
class _HttpsWithClients:
    """The TLS of the AGTP port, with client certificates, for clients that speak HTTP."""

    def __init__(self, tls: ServerTLS) -> None:
        prepared = tls.prepare()
        prepared.context.set_alpn_select_callback(_select_http)
        tls.adopt(prepared)
        self._tls = tls

    def serverConnectionForTLS(self, protocol: object) -> Any:
        """Return a connection; see :class:`IOpenSSLServerConnectionCreator`."""
        return self._tls.serverConnectionForTLS(protocol)


def _select_http(connection: object, offered: list[bytes]) -> Any:
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS
