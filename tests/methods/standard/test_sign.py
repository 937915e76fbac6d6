"""SIGN signs what is asked, and nothing that anybody takes for something of the host's own: methods v01 section 5.8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.identity import delegation, jws, manifest_signature
from agtphost.identity.canonical import canonical
from agtphost.identity.key_history import HostKey, succeed
from agtphost.identity.keys import SigningKey
from agtphost.methods.standard.sign import TYPE
from agtphost.testing import Answer, MemoryHost
from tests.rows import each_row


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    host = MemoryHost({"methods": {"standard": "*"}, "host": {"state_dir": str(tmp_path_factory.mktemp("state"))}})
    yield SimpleNamespace(host=host, agent=host.agent("signer"), hosted=host.agent("desk", hosted=True))
    host.close()


def sign(there: SimpleNamespace, payload: Any, by: Any = None, **more: Any) -> Answer:
    return there.host.call("SIGN", "/", {"payload": payload, **more}, caller=by or there.agent)


AGREEMENT = {"title": "Service agreement", "parties": ["Acme", "Example"], "amount": "1200.00 EUR"}


def test_an_agreement_is_signed_by_the_host_for_the_caller(there: SimpleNamespace) -> None:
    """The draft's use case: a timestamped signature, of the host for this caller; its key is published (METH-027)."""
    answer = sign(there, AGREEMENT)
    assert (answer.status, answer.result["capacity"], answer.result["key_id"]) == (200, "host", there.host.key.kid)
    told = jws.verify(answer.result["signature"], {there.host.key.kid: there.host.key.public}, typ=TYPE)
    assert (told["payload"], told["requested_by"]) == (AGREEMENT, there.agent.agent_id)
    assert told["signed_at"] == answer.result["signed_at"]
    assert answer.record["extra"]["signed"]["payload_sha256"] == told["payload_sha256"]
    changed = canonical({**told, "payload": {**AGREEMENT, "amount": "1.00 EUR"}})
    head, _, tail = answer.result["signature"].split(".")
    with pytest.raises(jws.JWSError):
        jws.verify(f"{head}.{jws.encode_part(changed).decode()}.{tail}", _keys(there), typ=TYPE)


def test_a_signature_is_of_the_key_that_it_names_while_another_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing is in a thread, and the host's key changes in the reactor's."""
    old, new = SigningKey.generate(), SigningKey.generate()
    old.save(tmp_path / "signing.key")
    host = MemoryHost({"methods": {"standard": "*"}, "host": {"state_dir": str(tmp_path)}})
    key = host.key = HostKey.of_host(tmp_path / "signing.key", tmp_path)
    header = jws.protected_header

    def follow(signer: jws.Signer, typ: str) -> bytes:
        made = header(signer, typ)
        key.follow(new, succeed(old, new, server_id="agtp.test", rotated_at="2026-07-01T00:00:00Z"))
        return made

    caller = host.agent("signer")
    monkeypatch.setattr(jws, "protected_header", follow)
    answer = host.call("SIGN", "/", {"payload": AGREEMENT}, caller=caller)
    assert (answer.result["key_id"], key.kid) == (old.kid, new.kid)
    assert jws.verify(answer.result["signature"], {old.kid: old.public}, typ=TYPE)["payload"] == AGREEMENT
    host.close()


def test_a_hosted_agent_signs_by_its_own_key(there: SimpleNamespace) -> None:
    """Where its key lies in the state directory; nobody else signs by it: 403 (METH-027)."""
    folder = there.host.config.host.state_dir / "hosted" / "desk"
    folder.mkdir(parents=True)
    there.hosted.key.save(folder / "agent.key")
    answer = sign(there, AGREEMENT, by=there.hosted)
    assert (answer.result["capacity"], answer.result["signer"]) == ("agent", there.hosted.agent_id)
    own = there.hosted.key.public
    assert jws.verify(answer.result["signature"], {own.kid: own}, typ=TYPE)["payload"] == AGREEMENT
    stolen = sign(there, AGREEMENT, key_id=own.kid)
    assert (stolen.status, stolen.reason) == (403, "key-not-own")
    asked = sign(there, AGREEMENT, by=there.hosted, key_id=there.host.key.kid)
    assert asked.result["capacity"] == "host"


def test_a_name_alone_does_not_sign_by_its_key(tmp_path: Path) -> None:
    """A development host takes an agent's word for who it is; its key signs for whoever proves it (METH-027)."""
    host = MemoryHost({"methods": {"standard": "*"}, "host": {"profile": "development", "state_dir": str(tmp_path)}})
    hosted = host.agent("desk", hosted=True)
    (tmp_path / "hosted" / "desk").mkdir(parents=True)
    hosted.key.save(tmp_path / "hosted" / "desk" / "agent.key")
    claimed = {"Agent-ID": hosted.agent_id}
    capacities = [
        host.call("SIGN", "/", {"payload": AGREEMENT}, caller=caller, headers=headers).result["capacity"]
        for caller, headers in ((hosted, {}), (None, claimed))
    ]
    assert capacities == ["agent", "host"]
    host.close()


@each_row(
    ("name", "value"),
    [
        ("payload", None),
        ("algorithm", "RS256"),
        ("algorithm", 1),
        ("key_id", 7),
        ("key_id", ""),
        ("keys", "x"),
    ],
)
def test_bad_parameters_are_422(there: SimpleNamespace, name: str, value: Any) -> None:
    """Each names its parameter."""
    answer = sign(there, **{"payload": 1, name: value})
    assert (answer.status, name in str(answer.document)) == (422, True), answer.document


def test_a_deep_payload_is_signed_by_its_digest(there: SimpleNamespace) -> None:
    """What SIGN gives can be verified: signed documents are read 32 deep."""
    for deep, whole in ((31, True), (32, False), (62, False)):
        payload: Any = 1
        for _ in range(deep):
            payload = [payload]
        told = jws.verify(sign(there, payload).result["signature"], _keys(there), typ=TYPE)
        assert ("payload" in told, "payload_octets" in told) == (whole, not whole)


def test_a_long_payload_is_signed_by_its_digest(there: SimpleNamespace) -> None:
    """The document has the SHA-256 of what is too long for it."""
    answer = sign(there, "x" * 70_000)
    told = jws.verify(answer.result["signature"], _keys(there), typ=TYPE)
    assert ("payload" in told, told["payload_octets"]) == (False, 70_002)


def _keys(there: SimpleNamespace) -> dict[str, Any]:
    return {there.host.key.kid: there.host.key.public}


def readers(there: SimpleNamespace, own: Any) -> dict[str, Callable[[str], object]]:
    """Everything that believes this host's key, by what it reads."""
    keys, now = _keys(there), there.host.seconds()

    def granted(text: str) -> object:
        answer = there.host.call("QUERY", "/", {"q": 1}, caller=there.agent, headers={"Delegation-Token": text})
        if answer.reason != "delegation-token-invalid":
            return answer
        raise ValueError(answer.reason)

    return {
        "record": lambda text: jws.verify(text, keys),
        "manifest": lambda text: manifest_signature.jws.verify(text, keys, typ=jws.MANIFEST_TYPE),
        "delegation token": lambda text: delegation.read(text, keys, now),
        "governance token": lambda text: delegation.read_governance(text, {own["iss"]: there.host.key.public}, now),
        "authorization": granted,
        **{typ: (lambda text, typ=typ: jws.verify(text, keys, typ=typ)) for typ in TYPES},
    }


TYPES = (
    *("agtp-identity", "agtp-issue", "agtp-manifest", "agtp-document", "agtphost-backup+jws"),
    *("agtp-authorization+jwt", "agtp-delegation+jwt", "JWT", "JOSE"),
)


def test_nothing_of_the_hosts_own_is_had_by_signing(there: SimpleNamespace) -> None:
    """
    Claims of every structure as a payload, its JSON, its signing input, its encoded form: no reader of any of them
    believes what comes back, in whole or put together anew (METH-027).
    """
    now = int(there.host.seconds())
    claims = {
        "iss": there.host.config.host.server_id,
        "sub": there.agent.agent_id,
        "aud": there.hosted.agent_id,
        "agent_id": there.agent.agent_id,
        "scope": ["vault:open"],
        "iat": now,
        "exp": now + 300,
        "jti": "forged",
        "task_id": "t1",
        "depth": 1,
        "verdict": "ALLOW",
        "action": {},
    }
    octets = canonical(claims)
    payloads: list[Any] = [claims, octets.decode(), f"{there.host.config.host.server_id}\n1\nAAAA\n\n"]
    for typ in TYPES:
        head = jws.protected_header(there.host.key, typ)
        covered = jws.build_signing_input(head, octets).decode()
        payloads += [covered, {"protected": head.decode(), "payload": jws.encode_part(octets).decode()}]
    believed = readers(there, claims)
    for payload in payloads:
        answer = sign(there, payload)
        text = answer.result["signature"]
        signature = text.rpartition(".")[2]
        attempts = [
            text,
            *(f"{p}.{signature}" for p in payloads if isinstance(p, str) and p.count(".") == 1 and "\n" not in p),
        ]
        for what, read in believed.items():
            for attempt in attempts:
                with pytest.raises(ValueError):
                    pytest.fail(f"{what}: {read(attempt)}")
        assert jws.parse(text).payload["artifact"] == TYPE
        # Genesis documents, quotes, checkpoints and cosignatures are signed as they stand, and not as a JWS.
        raw = [octets, canonical(payload), *(each.encode() for each in payloads if isinstance(each, str))]
        assert not any(there.host.key.public.verify(jws.parse(text).signature, each) for each in raw)


def test_a_signature_of_another_type_would_be_believed(there: SimpleNamespace) -> None:
    """The control: with the type of a record, what was signed passes for one."""
    forged = jws.compact(jws.protected_header(there.host.key), canonical({"status": 200}), there.host.key)
    assert jws.verify(forged, _keys(there)) == {"status": 200}
