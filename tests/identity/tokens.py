"""An identity provider of the tests: keys, and tokens signed by joserfc."""

from __future__ import annotations

import functools
import json
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

ISSUER = "https://idp.example.com"
NOW = 1_800_000_000.0
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
OTHER = OKPKey.generate_key("Ed25519", {"kid": "ed"})


@functools.cache
def rsa() -> RSAKey:
    """Return the key of kind RSA, which takes long to make: each worker imports this module."""
    return RSAKey.generate_key(2048, {"kid": "rsa"})


@functools.cache
def public() -> bytes:
    """Return the provider's key set as it is published."""
    return json.dumps(KeySet([ED, EC, rsa()]).as_dict(private=False)).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a good token; a change to None leaves one out."""
    good = {"iss": ISSUER, "sub": "alice", "aud": "agtphost", "iat": NOW - 10, "exp": NOW + 600, **changes}
    return {name: value for name, value in good.items() if value is not None}


def token(key: Any = ED, alg: str = "EdDSA", header: dict[str, Any] | None = None, **changes: Any) -> str:
    """A token signed with ``key``."""
    protected = {"alg": alg, "kid": key.kid, **(header or {})}
    protected = {name: value for name, value in protected.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    return str(jws.serialize_compact(protected, json.dumps(claims(**changes)).encode(), key, registry=registry))
