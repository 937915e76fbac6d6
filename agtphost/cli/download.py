"""One document over HTTPS: no redirects, no proxies, a bounded size, and no way to skip verification."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from agtphost.cli.failures import CommandError, HostRefused, NoConnection, WrongInput
from agtphost.cli.identities import present


def download(url: str, *, cacert: Path | None, timeout: float, limit: int) -> bytes:
    """
    Fetch a document.

    :param cacert: the authority of the server's certificate (PEM); None: the platform's.
    :param timeout: seconds for each wait.
    :param limit: octets that the document may have.
    :raises CommandError: for any other scheme than https, and for whatever goes wrong.
    """
    host, port, target = check_url(url)
    context = _context(present(cacert, "--cacert"))
    connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    try:
        connection.request("GET", target, headers={"Accept": "application/json", "Accept-Encoding": "identity"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise _refused(url, answer)
        octets = answer.read(limit + 1)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise NoConnection(f"{host} is not to be trusted: {why}", "Name its authority by --cacert.") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoConnection(f"{url} cannot be fetched: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if len(octets) > limit:
        raise HostRefused(f"{url} has more than {limit} octets")
    return octets


def check_url(url: str) -> tuple[str, int | None, str]:
    """
    Take a URL apart.

    :return: host, port, and path with query.
    :raises CommandError: for what is not a plain https URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongInput(f"{url[:200]!r} is not a URL") from None
    if parts.scheme != "https":
        raise WrongInput(
            f"{url[:200]!r} is not an https:// URL", "Anyone on the way could change what is sent otherwise."
        )
    if not parts.hostname or parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
        raise WrongInput(f"{url[:200]!r} is not a URL of the form https://HOST/PATH")
    return parts.hostname, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _context(cacert: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if cacert is None else str(cacert))
    except (ssl.SSLError, OSError) as error:
        raise WrongInput(f"{cacert} holds no certificates: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _refused(url: str, answer: http.client.HTTPResponse) -> CommandError:
    if 300 <= answer.status < 400:
        return HostRefused(
            f"{url} is answered by a redirect to {answer.headers.get('Location', 'nowhere')!r}",
            "Redirects are not followed: name the final URL.",
        )
    return HostRefused(f"{url} is answered {answer.status} {answer.reason}")
