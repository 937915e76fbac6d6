"""
Label the pod of the host that serves, so that a Service of Kubernetes sends calls to it alone.

A standby counts as ready, or it would block rolling upgrades; so readiness cannot tell the hosts apart. The host that
serves sets the label on its own pod, and removes it before it gives the lease up. A standby removes it at its start,
because labels outlive a container that is started again in its pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.upstream.https import HTTPSClient, read, trust_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the credentials of a pod. Its files change while the pod runs, so each request reads them."""

LABEL: Final = "agtphost/serving"

PATCH_SECONDS: Final = 5.0
REMOVE_SECONDS: Final = 2.0
"""Seconds for a request, and for the one at a hand-over, which delays the hand-over."""

REPEAT_SECONDS: Final = 30.0
"""From one request to the next, as someone may have changed the label; the longest pause after a failure, too."""

MOST_OCTETS: Final = 1 << 20
"""Of an answer, which is the whole pod."""

CURES: Final[Mapping[int, str]] = {
    401: "mount the token of a service account in the pod",
    403: "give the pod's service account a Role with the verb patch on pods, and bind it",
    404: "set POD_NAME to metadata.name by the downward API",
}

log = Logger()


def missing_parts(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what the label needs and this process does not have, with what to do about it."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        if not environ.get(name):
            yield f"the variable {name} is not set", "run the host in a pod of Kubernetes, or remove pod_label"
    if not (environ.get("POD_NAME") or environ.get("HOSTNAME")):
        yield "neither the variable POD_NAME nor HOSTNAME is set", "set POD_NAME to metadata.name by the downward API"
    for name in ("token", "ca.crt", "namespace"):
        if not (file := SERVICE_ACCOUNT / name).is_file():
            yield f"the file {file} does not exist", "set automountServiceAccountToken: true in the pod's specification"


class PodLabel(Service):
    """
    A service that keeps the label of this process's pod as it has to be.

    :param environ: has what :func:`missing_parts` asks for.
    :param serving: whether this host serves: then the pod has the label until the service stops.
    """

    name = "pod label"

    def __init__(self, reactor: Any, environ: Mapping[str, str], *, serving: bool) -> None:
        self._reactor = reactor
        host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        self._api = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._pod = environ.get("POD_NAME") or environ["HOSTNAME"]
        self._serving = serving
        self._keeping: Deferred[None] | None = None

    def startService(self) -> None:
        """Begin to set the label, or to remove it on a standby."""
        super().startService()  # type: ignore[no-untyped-call]
        self._keeping = Deferred.fromCoroutine(self._keep())
        self._keeping.addErrback(self._note_end)

    def stopService(self) -> Deferred[None]:
        """Remove the label if this host served; fires after :data:`REMOVE_SECONDS` at most."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._keeping is not None:
            self._keeping.cancel()
        return Deferred.fromCoroutine(self._remove()) if self._serving else succeed(None)

    def _note_end(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:  # type: ignore[no-untyped-call]
            log.failure("the pod's label is not kept any more", failure=failure)

    async def _keep(self) -> None:
        value = "true" if self._serving else None
        failures = 0
        while True:
            fault = await self._try_patch(value, PATCH_SECONDS)
            if not self.running:
                # A request that is cancelled while it connects fails like one that is refused.
                return
            if not fault:
                if failures:
                    log.info("the label {label} of pod {pod} is right again", label=LABEL, pod=self._pod)
                failures = 0
            elif (failures := failures + 1) == 1:
                self._report(fault, "this is tried again until it succeeds")
            await deferLater(self._reactor, min(REPEAT_SECONDS, 2.0 ** (failures - 1)) if failures else REPEAT_SECONDS)

    async def _remove(self) -> None:
        if fault := await self._try_patch(None, REMOVE_SECONDS):
            self._report(fault, "the Service may send calls here until the pod has ended")

    def _report(self, fault: str, consequence: str) -> None:
        log.error(
            "the label {label} of pod {pod} cannot be {changed}: {fault}; {consequence}",
            label=LABEL,
            pod=self._pod,
            changed="set" if self._serving and self.running else "removed",
            fault=fault,
            consequence=consequence,
        )

    async def _try_patch(self, value: str | None, seconds: float) -> str:
        """Set the label, or remove it with None; return why that failed, or an empty text."""
        try:
            status = await Deferred.fromCoroutine(self._patch(value)).addTimeout(seconds, self._reactor)
        except TimeoutError:
            return f"{self._api} did not answer within {seconds:.3g} s"
        except (UpstreamLost, AnswerTooLong, OSError, ValueError) as error:
            return f"{self._api}: {explain(error)}"
        if status == 200:
            return ""
        cure = CURES.get(status)
        return f"{self._api} answered {status}" + (f"; {cure}" if cure else "")

    async def _patch(self, value: str | None) -> int:
        """
        Send one request, and return the status of the answer.

        :raises UpstreamLost, AnswerTooLong: there was no usable answer.
        :raises OSError, ValueError: a file of the service account cannot be used.
        """
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        fields = Headers()
        for name, text in (
            ("Authorization", f"Bearer {(SERVICE_ACCOUNT / 'token').read_text().strip()}"),
            ("Content-Type", "application/merge-patch+json"),
            ("Accept", "application/json"),
        ):
            fields.setRawHeaders(name, [text])
        client = HTTPSClient(self._reactor, trust_of(SERVICE_ACCOUNT / "ca.crt"), addresses=None, most=2 * MOST_OCTETS)
        url = f"{self._api}/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(self._pod, safe='')}"
        body = jsontext.encode({"metadata": {"labels": {LABEL: value}}})
        response = await client.request("PATCH", url, fields, body)
        await read(response, MOST_OCTETS, measured=False)
        return int(response.code)
