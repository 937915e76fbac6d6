"""The handlers of this family, made of the parts of one configuration."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.methods.standard.orchestration.batch import Batch
from agtphost.methods.standard.orchestration.chain import Chain
from agtphost.methods.standard.orchestration.monitor_methods import Monitoring
from agtphost.methods.standard.orchestration.pause import Pause
from agtphost.methods.standard.orchestration.procedures import Procedures
from agtphost.methods.standard.orchestration.retry import Retry
from agtphost.methods.standard.orchestration.route import Route
from agtphost.methods.standard.services import MethodServices


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the handlers by method."""
    workflows, monitors = parts.workflows, parts.monitors
    return {
        "CHAIN": Chain(workflows, parts.find),
        "BATCH": Batch(parts.find, parts.offload, parts.reactor),
        "ROUTE": Route(parts.directory, parts.states, parts.visibility, parts.find, parts.search, parts.offload),
        "RETRY": Retry(workflows, parts.find),
        "PAUSE": Pause(workflows),
        "MONITOR": Monitoring(monitors, parts.visibility, parts.authorization, parts.address),
        "RUN": Procedures(parts.config.methods.procedures, parts.recipes, parts.reactor, parts.offload),
    }
