"""Build the OpenAPI document of the registry: ``registry_openapi.json`` with its address."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from agtphost.vocabulary import jsontext

_TEMPLATE: dict[str, Any] = jsontext.decode(files(__package__).joinpath("registry_openapi.json").read_bytes())


def document(base: str, title: str) -> dict[str, Any]:
    """
    Return the OpenAPI 3.1 document.

    :param base: the URL of the registry.
    :param title: the host's name.
    """
    return {
        **_TEMPLATE,
        "info": {**_TEMPLATE["info"], "title": f"Agents of {title}" if title else "Agents"},
        "servers": [{"url": base or "/"}],
    }
