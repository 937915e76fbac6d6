"""SIGN with a key of an organization: for those whom the operator lets use it, and nobody else (METH-069)."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import load_host
from agtphost.identity.keys import SigningKey
from agtphost.testing import Answer, MemoryHost
from tests.host.hosts import configured

AGREEMENT = {"title": "Service agreement", "amount": "1200.00 EUR"}
NAME = "organization-governance"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("keys")
    keys = {name: SigningKey.generate() for name in ("governance", "board")}
    for name, key in keys.items():
        key.save(folder / f"{name}.key")
    board = "f" * 64
    settings: dict[str, Any] = {
        "host": {"profile": "development", "state_dir": str(folder / "state")},
        "methods": {
            "standard": "*",
            "signing_key": [
                {
                    "name": NAME,
                    "key": str(folder / "governance.key"),
                    "signer": "Example Ltd",
                    "scopes": ["governance:sign"],
                },
                {"name": "board", "key": str(folder / "board.key"), "agents": [board]},
            ],
        },
    }
    host = MemoryHost(settings)
    yield SimpleNamespace(
        host=host,
        entitled=host.agent("counsel", scopes=("governance:sign",)),
        other=host.agent("intern", scopes=("governance:read",)),
        keys=keys,
    )
    host.close()


def sign(there: SimpleNamespace, by: Any, key_id: str, **more: Any) -> Answer:
    given = {"payload": AGREEMENT, "key_id": key_id}
    return there.host.call("SIGN", "/", given, **{"caller": by, **more})


def test_an_entitled_caller_signs_and_anybody_can_verify(there: SimpleNamespace) -> None:
    """The draft's use case: on behalf of the principal, with the organization's key; verified without this code."""
    answer = sign(there, there.entitled, NAME)
    assert answer.status == 200, answer.result
    head, payload, signature = answer.result["signature"].split(".")

    def decoded(part: str) -> bytes:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    public = Ed25519PublicKey.from_public_bytes(decoded(answer.result["public_key"]))
    public.verify(decoded(signature), f"{head}.{payload}".encode())
    document = json.loads(decoded(payload))
    assert document["payload"] == AGREEMENT and document["requested_by"] == there.entitled.agent_id
    assert (document["signer"], document["capacity"]) == ("Example Ltd", "organization")
    assert document["attested_by"] == there.host.config.host.server_id
    assert answer.result["public_key"] == there.keys["governance"].public.text
    for named in (there.keys["governance"].kid, there.keys["governance"].public.fingerprint):
        assert sign(there, there.entitled, named).result["capacity"] == "organization"


def test_each_use_is_on_record_with_the_key(there: SimpleNamespace) -> None:
    """Which key signed, by its name and identifier, for whom, and the digest of what."""
    answer = sign(there, there.entitled, NAME)
    signed = answer.record["extra"]["signed"]
    assert (signed["key_name"], signed["key_id"]) == (NAME, there.keys["governance"].kid)
    assert signed["capacity"] == "organization" and signed["payload_sha256"] == answer.result["payload_sha256"]


def test_those_who_may_not_use_it_are_answered_as_for_a_key_that_is_not_there(there: SimpleNamespace) -> None:
    """No scope, not on the list, no proof of who calls: 403, and nothing tells whether the key exists."""
    unknown = sign(there, there.other, "no-such-key")
    assert (unknown.status, unknown.reason) == (403, "key-not-own")

    def told(answer: Answer) -> dict[str, Any]:
        return {name: value for name, value in answer.document.items() if name not in ("key_id", "attribution")}

    for by, key_id in (
        (there.other, NAME),
        (there.other, there.keys["governance"].kid),
        (there.entitled, "board"),
        (there.entitled, there.keys["board"].public.fingerprint),
    ):
        answer = sign(there, by, key_id)
        assert (answer.status, answer.reason) == (403, "key-not-own")
        assert told(answer) == told(unknown)
    claimed = sign(there, None, NAME, headers={"Agent-ID": there.entitled.agent_id})
    assert (claimed.status, told(claimed)) == (403, told(unknown)), "a name in a header proves nothing"
    narrowed = sign(there, there.entitled, NAME, headers={"Authority-Scope": ""})
    assert narrowed.status == 403


def test_without_key_id_the_key_of_an_organization_never_signs(there: SimpleNamespace) -> None:
    """It is used where it is named."""
    answer = there.host.call("SIGN", "/", {"payload": AGREEMENT}, caller=there.entitled)
    assert answer.result["capacity"] == "host"


FAULTS: dict[str, tuple[str, str]] = {
    "nobody named": ('name = "a"\nkey = "{key}"\n', "nothing says who may sign"),
    "two of a name": (
        'name = "a"\nkey = "{key}"\nscopes = ["a:sign"]\n[[methods.signing_key]]\nname = "a"\nkey = "{key}"\n'
        'scopes = ["a:sign"]\n',
        "is the name of two keys",
    ),
    "a bad name": ('name = "a b"\nkey = "{key}"\nscopes = ["a:sign"]\n', "not a name such as"),
    "a missing file": ('name = "a"\nkey = "no.key"\nscopes = ["a:sign"]\n', "is missing"),
    "no key": ('name = "a"\nkey = "host.toml"\nscopes = ["a:sign"]\n', "host.toml"),
    "an exposed file": ('name = "a"\nkey = "{exposed}"\nscopes = ["a:sign"]\n', "other users can read its key"),
    "the host's own": ('name = "a"\nkey = "state/signing.key"\nscopes = ["a:sign"]\n', "of this host's records"),
    "the registrar's": ('name = "a"\nkey = "state/registrar.key"\nscopes = ["a:sign"]\n', "is also the registrar's"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_key_that_cannot_be_used_is_a_start_error(tmp_path: Path, fault: str) -> None:
    """Each names the key; a file that others can read is refused."""
    text, message = FAULTS[fault]
    places = {name: tmp_path / f"{name}.pem" for name in ("key", "exposed")}
    for path in places.values():
        SigningKey.generate().save(path)
    os.chmod(places["exposed"], 0o640)
    with pytest.raises(ConfigurationError) as caught:
        config = configured(tmp_path, append="\n[[methods.signing_key]]\n" + text.format(**places))
        config.host.state_dir.mkdir(mode=0o700)
        for name in ("signing", "registrar"):
            SigningKey.generate().save(config.host.state_dir / f"{name}.key")
        load_host(config)
    assert message in str(caught.value)
