"""The label of the pod that serves: set at a takeover, removed at a hand-over, whatever the API of Kubernetes does."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.logger import capturedLogs, formatEvent

from agtphost.cluster import pod_label
from agtphost.cluster.pod_label import PodLabel
from agtphost.stores.lease import read_holder
from tests import postgres
from tests.cluster.hosts import Cluster, cluster, gone
from tests.cluster.kubernetes import kubernetes
from tests.measuring import measured
from tests.system.hosting import Host, agtp, free_port, until
from tests.system.raw_link import RawLink

WANTED = ("[cluster]\n", "[cluster]\npod_label = true\n")


def in_pod(group: Cluster, name: str, environ: Mapping[str, str]) -> Host:
    """Start a host as in a pod of its name, with the label."""
    return group.start(name, "pod", group.variant(name, WANTED), environ)


def holder(group: Cluster) -> str:
    """Return the name of the host that has the lease; empty if none has."""
    found = read_holder(postgres.server().run("SELECT holder FROM store", url=group.url)[0][0])
    return "" if found is None else found.name


@postgres.needed
@measured
def test_the_label_follows_the_lease(tmp_path: Path) -> None:
    """It is removed while the old host has the lease, and set within 1 s of the takeover; a standby has none."""
    with cluster(tmp_path, "a", "b") as group, kubernetes(tmp_path / "pod") as api:
        assert group.hosts["a"].stop() == 0
        api.note = lambda: holder(group)
        in_pod(group, "a", api.environ("a")).wait()
        until(lambda: api.labels() == {"a": "true"})
        standby = in_pod(group, "b", api.environ("b"))
        until(lambda: api.labels() == {"a": "true", "b": None})
        assert group.hosts["a"].stop() == 0
        until(lambda: "this host takes over" in standby.output)
        taken = time.monotonic()
        standby.wait()
        until(lambda: api.labels() == {"a": None, "b": "true"})
        assert api.moment("b", "true") - taken < 1
        changes = [(each.pod, each.value, each.note) for each in api.patches]
        assert changes == [("a", "true", "a"), ("b", None, "a"), ("a", None, "a"), ("b", "true", "b")]


@postgres.needed
def test_a_host_serves_without_its_label(tmp_path: Path) -> None:
    """The API refuses: calls are answered, the log says what to do, and the label is set once it may be."""
    with cluster(tmp_path, "a") as group, kubernetes(tmp_path / "pod") as api:
        assert group.hosts["a"].stop() == 0
        api.status = 403
        host = in_pod(group, "a", api.environ("a")).wait()
        until(lambda: "the label agtphost/serving of pod a cannot be set: " in host.output)
        assert "answered 403; give the pod's service account a Role with the verb patch on pods" in host.output
        with RawLink(host) as link:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        api.status = 200
        until(lambda: api.labels() == {"a": "true"})
        until(lambda: "the label agtphost/serving of pod a is right again" in host.output)
        assert host.stop() == 0


@postgres.needed
def test_a_dead_api_keeps_no_host_from_handing_over(tmp_path: Path) -> None:
    """Nothing listens there: the other host takes over all the same."""
    with cluster(tmp_path, "a", "b") as group, kubernetes(tmp_path / "pod") as api:
        assert group.hosts["a"].stop() == 0
        dead = {"KUBERNETES_SERVICE_PORT": str(free_port())}
        host = in_pod(group, "a", api.environ("a") | dead).wait()
        until(lambda: "cannot be set: https://127.0.0.1:" in host.output)
        standby = in_pod(group, "b", api.environ("b") | dead)
        until(lambda: "agtphost standby" in standby.output)
        assert host.stop() == 0
        assert "cannot be removed: https://127.0.0.1:" in host.output
        standby.wait()


@postgres.needed
def test_a_host_outside_of_a_pod_is_refused(tmp_path: Path) -> None:
    """By ``agtp check``, a start and a start as standby: each names the variables and files that are missing."""
    with cluster(tmp_path, "a", "b") as group:
        config = group.variant("b", WANTED)
        without = group.environ("b") | {"HOSTNAME": ""}
        checked = agtp("check", str(config), environ=without)
        assert checked.returncode == 2
        standby = group.start("b", config=config, environ={"HOSTNAME": ""})
        assert gone(standby) == 1
        assert group.hosts["a"].stop() == 0
        serving = group.start("b", config=config, environ={"HOSTNAME": ""})
        assert gone(serving) == 1
        until(lambda: all("ca.crt" in host.output for host in (standby, serving)))
        for said in (checked.stdout + checked.stderr, standby.output, serving.output):
            for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAME"):
                assert name in said
            for name in ("token", "ca.crt", "namespace"):
                assert f"/var/run/secrets/kubernetes.io/serviceaccount/{name}" in said
            assert "[cluster] pod_label" in said


@pytest_twisted.ensureDeferred
async def test_an_api_that_does_not_answer_delays_the_end_by_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections and is silent: the service ends, and says what may follow."""
    monkeypatch.setattr(pod_label, "REMOVE_SECONDS", 0.05)
    with kubernetes(tmp_path / "pod") as api, socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(pod_label, "SERVICE_ACCOUNT", tmp_path / "pod")
        environ = api.environ("a") | {"KUBERNETES_SERVICE_PORT": str(silent.getsockname()[1])}
        label = PodLabel(reactor, environ, serving=True)
        label.startService()
        with capturedLogs() as logged:
            await label.stopService()
        (line,) = [formatEvent(event) for event in logged if event["log_namespace"] == pod_label.__name__]
        assert "cannot be removed: https://127.0.0.1:" in line and "did not answer within 0.05 s" in line
        assert "the Service may send calls here until the pod has ended" in line


@pytest_twisted.ensureDeferred
async def test_the_api_has_to_prove_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the authority of the service account: no token is sent to another server."""
    with kubernetes(tmp_path / "pod") as api, kubernetes(tmp_path / "other") as other:
        monkeypatch.setattr(pod_label, "SERVICE_ACCOUNT", tmp_path / "pod")
        for server, seen in ((other, 0), (api, 1)):
            label = PodLabel(reactor, server.environ("a"), serving=True)
            label.running = 1
            with capturedLogs():
                await label.stopService()
            assert len(server.patches) == seen
