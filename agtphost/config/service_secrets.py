"""The header fields of an external service with their secrets (AGTP-API section 12.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agtphost.config import secret
from agtphost.contract.service import ServiceReference


def headers_of(service: ServiceReference, environ: Mapping[str, str], folder: Path) -> dict[str, secret.Secret]:
    """
    Resolve ``${VAR}``, ``env:NAME`` and ``file:PATH`` in the values.

    :param folder: what relative paths are relative to.
    :raises ValueError: naming the field, and the variable or file that cannot be read; never containing a value.
    """
    found: dict[str, secret.Secret] = {}
    for name, value in service.headers.items():
        try:
            found[name] = secret.resolve(value, environ, folder)
        except ValueError as error:
            raise ValueError(f"handler.headers.{name} {error}") from None
        text = found[name].reveal()
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"handler.headers.{name} names a value that is not one line of ASCII text")
    return found
