"""The server manifest as this host publishes it: built when its content changes, not when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agtphost.config import Config
from agtphost.contract import manifest
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.reserved import DISCOVERY
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity import files
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary.catalog import Catalog

HISTORY = "manifest.json"
"""File of the state directory that remembers what was published when."""

FEATURES = ("endpoint-registry", "mcp")


class Publication:
    """
    Answers the manifest for each kind of reader.

    :param now: the present time, RFC 3339.
    """

    def __init__(
        self,
        config: Config,
        *,
        catalog: Catalog,
        policy: MethodPolicy,
        endpoints: Sequence[Endpoint],
        built_ins: Sequence[Binding],
        adapters: Sequence[IPayloadAdapter],
        directory: IAgentDirectory,
        key: SigningKey | None,
        now: Callable[[], str],
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._policies = manifest.Policies(
            methods=policy,
            wildcards_accepted=config.policies.wildcards_accepted,
            anonymous_discovery=config.policies.anonymous_discovery,
            scope_required_for_invocation=config.policies.scope_required_for_invocation,
            synthesis_enabled=config.policies.synthesis_enabled,
            max_synthesis_depth=config.policies.max_synthesis_depth,
        )
        self._endpoints = endpoints
        self._built_ins = built_ins
        self._adapters = adapters
        self._directory = directory
        self._key = key
        self._now = now
        self._history = _History(config.host.state_dir / HISTORY, now)
        self._built: dict[bool, tuple[Any, Mapping[str, Any]]] = {}

    def __call__(self, disclosed: bool) -> Mapping[str, Any]:
        """The signed manifest; built anew only after an upstream changed."""
        upstreams = [_published(entry) for adapter in self._adapters for entry in adapter.hosted()]
        known = self._built.get(disclosed)
        if known is None or known[0] != upstreams:
            known = self._built[disclosed] = (upstreams, self._build(disclosed, upstreams))
        return known[1]

    def _build(self, disclosed: bool, upstreams: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        config = self._config

        def build(issued: str, updated: str, version: str) -> dict[str, Any]:
            return manifest.build_manifest(
                manifest.ServerFacts(
                    server_id=config.host.server_id,
                    operator=config.host.operator,
                    contact=config.host.contact,
                    issued=issued,
                    updated=updated,
                    document_version=version,
                    supported_features=FEATURES,
                ),
                catalog=self._catalog,
                policies=self._policies,
                disclosure=manifest.Disclosure(
                    level=config.policies.agent_disclosure,
                    notice=config.policies.agent_disclosure_notice,
                    agents=self._directory.hosted() if disclosed else (),
                ),
                endpoints=self._endpoints,
                built_ins=self._built_ins,
                hosted_protocols=upstreams,
                signing_keys=() if self._key is None else (self._key.public,),
            )

        digest = manifest.content_digest(build("", "", ""))
        document = build(*self._history.revision("disclosed" if disclosed else "reserved", digest))
        document["directory"] = [{"path": path, "tier": "A"} for path in DISCOVERY]
        return manifest.sign_manifest(document, self._key)


def _published(entry: Mapping[str, object]) -> Mapping[str, Any]:
    """An upstream without its state of the moment, which changes with every restart and is DESCRIBE's to tell."""
    return {name: value for name, value in entry.items() if name not in ("state", "tools")}


class _History:
    """Which content was published under which version, kept over restarts (AGTP-API sections 8.3 and 8.11)."""

    def __init__(self, path: Path, now: Callable[[], str]) -> None:
        self._path = path
        self._now = now
        try:
            self._seen: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            self._seen = {"issued": now(), "revision": 0, "contents": {}}

    def revision(self, form: str, digest: str) -> tuple[str, str, str]:
        """``issued``, ``updated`` and ``document_version`` of a content; a new one gets the next version."""
        known = self._seen["contents"].get(form)
        if known is None or known["digest"] != digest:
            self._seen["revision"] += 1
            known = {"digest": digest, "updated": self._now(), "version": f"v{self._seen['revision']}"}
            self._seen["contents"][form] = known
            files.replace(self._path, json.dumps(self._seen, indent=1).encode(), files.PRIVATE)
        return self._seen["issued"], known["updated"], known["version"]
