"""What operators rely on: a port of their choice, a private log, and changes that hold from the next start on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from agtphost.client.sync import Client
from agtphost.vocabulary.catalog import Catalog
from tests import forking
from tests.system.hosting import BIN, Host, running, sample, until
from tests.vocabulary.test_catalog_set import document

FLOOR = 18
"""Methods that every server has."""


def manifest(host: Host) -> dict[str, object]:
    with Client(trust=host.state / "ca.pem") as client:
        return dict(client.call(host.uri, "DISCOVER", anonymous=True).json())


def test_a_port_of_the_operators_own(tmp_path: Path) -> None:
    """AGTP-096: one of the dynamic range in place of 4480; the URI with it reaches the host."""
    config = sample(tmp_path)
    port = next(number for number in range(50_443, 50_543) if free(number))
    lines = [f"port = {port}" if line.startswith("port = ") else line for line in config.read_text().splitlines()]
    config.write_text("\n".join(lines) + "\n")
    with running(config) as host, Client(trust=host.state / "ca.pem") as client:
        assert host.port == port
        assert client.call(f"agtp://127.0.0.1:{port}", "DISCOVER", "/methods").status == 200
        assert host.agtp("call", f"agtp://127.0.0.1:{port}", "DISCOVER", "/methods").returncode == 0


def free(number: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
        return True


def test_every_method_with_an_endpoint_is_in_the_greeting(tmp_path: Path) -> None:
    """METH-051, AGTP-268: Supported-Methods names each Tier 2 method; every answer has the AGTP-API-Version."""
    with running(sample(tmp_path)) as host, Client(trust=host.state / "ca.pem") as client:
        first = client.call(host.uri, "DISCOVER", "/methods")
        named = {name.strip() for name in str(first.headers.get("supported-methods")).split(",")}
        called = {entry["method"] for entry in manifest(host)["endpoints"]}  # type: ignore[index, attr-defined]
        catalog = Catalog.load()
        more = called - set(catalog.embedded)
        assert called <= named and len(named) >= FLOOR
        assert more, "the sample declares methods beyond the floor"
        answers = [first, *(client.call(host.uri, "DISCOVER", path) for path in ("/", "/nothing", "/agents"))]
        # It may grow meanwhile: tools of upstreams come in when these have started.
        numbers = [int(str(answer.headers.get("agtp-api-version"))) for answer in answers]
        assert numbers == sorted(numbers)


def test_the_catalog_changes_with_a_restart_and_not_before(tmp_path: Path) -> None:
    """API-157: an edited catalog is not taken while the host runs, with SIGHUP neither; then it is. The docs say so."""
    config = sample(tmp_path, append='\n[catalog]\npath = "catalog.json"\n')
    catalog = config.parent / "catalog.json"
    catalog.write_text(json.dumps(document("1.5.0")))
    with running(config) as host:
        before = manifest(host)
        catalog.write_text(json.dumps(document("1.6.0")))
        host.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP" in host.output)
        after = manifest(host)
        assert before["catalog_version"] == after["catalog_version"] == "1.5.0"
        assert before["document_version"] == after["document_version"]
    with running(config) as host:
        assert manifest(host)["catalog_version"] == "1.6.0"
    documented = (Path(__file__).parents[2] / "docs" / "operations.rst").read_text().split()
    assert "the catalog always need a restart" in " ".join(documented)


def test_the_log_is_for_the_hosts_user_alone(tmp_path: Path) -> None:
    """AGTP-317: written by twistd through our observer, mode 0600 under a lax umask."""
    config, path = sample(tmp_path), tmp_path / "host.log"
    words = [str(BIN / "twistd"), "-n", "--pidfile=", "--umask=000", "--logger", "agtphost.host.log_file.observer"]
    process = forking.start(
        [*words, "agtp", "--config", str(config)],
        cwd=config.parent,
        env={**os.environ, "AGTPHOST_LOG_FILE": str(path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: path.is_file() and "agtphost ready" in path.read_text(), 60)
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        process.terminate()
        process.wait(40)
    assert json.dumps(sorted(file.name for file in tmp_path.glob("host.log*"))) == '["host.log"]'
