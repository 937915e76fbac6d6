"""The HTTPS server that serves this host's bootstrap document, where one is configured."""

from __future__ import annotations

from typing import Any

from twisted.internet.ssl import CertificateOptions

from agtphost.config import Config
from agtphost.config.presence import bootstrap_facts
from agtphost.host.listener import http_limits
from agtphost.http.sidecar import Page, Sidecar
from agtphost.http.tls import https_options
from agtphost.http.wellknown import PATH, Namespace, encoded


def sidecar(reactor: Any, config: Config, endpoint: str) -> Sidecar:
    """
    The HTTPS server of ``[wellknown]``.

    :param endpoint: ``[wellknown] listen``.
    :raises agtphost.errors.ConfigurationError: for files and endpoints that cannot be used.
    """
    page = Page(body=encoded(Namespace(**bootstrap_facts(config))), max_age=config.wellknown.max_age)
    return Sidecar(reactor, endpoint, sidecar_options(config), {PATH: page}, http_limits(config))


def sidecar_options(config: Config) -> CertificateOptions:
    """
    The certificate and key of ``[wellknown]``, as they are on disk now.

    :raises agtphost.errors.ConfigurationError: for files that cannot be used.
    """
    given = config.wellknown
    return https_options(given.certificate or config.tls.certificate, given.key or config.tls.key)
