"""
Packages that a plain install leaves out: the extra that brings each, and the message where one is missing.

Modules import such packages where they use them, never when they are loaded.
"""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {
    "joserfc": "oauth",
    "cbor2": "cose",
    "jmespath": "recipes",
    "mcp": "mcp",
    "nacl": "fast",
    "tomli": "fast",
    "rich": "terminal",
    "prometheus_client": "metrics",
    "opentelemetry": "traces",
    "requests": "traces",
    "flask_swagger_ui": "viewer",
    "numpy": "semantic",
    "tokenizers": "semantic",
    "wordllama": "semantic",
    "onnxruntime": "onnx",
    "phonenumbers": "methods",
    "babel": "methods",
    "pint": "methods",
    "psycopg": "postgres",
    "aioquic": "quic",
    "pytest": "testing",
}
"""The extra of ``pyproject.toml`` by the name that is imported."""


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def remedy(package: str) -> str:
    """Return what to do where a package is missing: one line for an operator."""
    return f"pip install 'agtphost[{PACKAGES[package.partition('.')[0]]}]'"


def missing(package: str) -> str:
    """Return the message for a missing package."""
    return f"the package {package} is not installed: {remedy(package)}"
