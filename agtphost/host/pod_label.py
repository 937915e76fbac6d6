"""Build what labels the pod of this host, where ``[cluster] pod_label`` asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.cluster.pod_label import PodLabel, missing_parts
from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.errors import ConfigurationError


def build_pod_label(config: Config, reactor: Any, environ: Mapping[str, str], *, serving: bool) -> PodLabel | None:
    """
    Return the service that keeps the label; None where it is not configured.

    :param environ: of the process.
    :param serving: whether this host serves; a standby has no label.
    :raises ConfigurationError: the process is not in a pod with a service account.
    """
    if not config.cluster.pod_label:
        return None
    faults = [
        ConfigFault(location=("cluster", "pod_label"), message=f"cannot work here: {message}", hint=hint)
        for message, hint in missing_parts(environ)
    ]
    if faults:
        raise ConfigurationError(problems_in(config.file, faults))
    return PodLabel(reactor, environ, serving=serving)
