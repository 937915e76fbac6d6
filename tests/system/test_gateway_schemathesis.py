"""
``schemathesis``, which is not ours, reads the gateway's OpenAPI document and sends what follows it and what does not.

No answer is 5xx, none breaks the schema that it was promised by, and who leaves the token out is refused. What a
request that follows the schema may still be answered is AGTP's: 422 for an error that the endpoint declares, and 400
for an integer beyond 2**53 in a member that a tool's open schema does not declare. A method that the host does not know
is 459, a path outside of its grammar 460.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programmes import length, seed_of_chance
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import BIN, running

EXAMPLES = length(4, 100)
"""Of each operation."""

PHASES = length("fuzzing", "examples,coverage,fuzzing,stateful")
"""The whole run has the bounds of every value of the schemas, too."""

SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 415, 422, 459, 460]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 404, 422]
"""

OPEN = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')
"""The tools of the sample are for certificates alone, unless it says otherwise."""

UNUSED = "unsupported_method"
"""AGTP has methods that OpenAPI 3.1 cannot describe: QUERY /agents is the host's own."""


def examined(folder: Path, document: str, base: str, seed: int) -> subprocess.CompletedProcess[str]:
    """A run of it; the document is at an address, or a file."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    words = ["--config-file", str(settings), "run", document, "--url", base, "--seed", str(seed), "--no-color"]
    words += ["--header", f"Authorization: Bearer {TOKEN}", "--exclude-checks", UNUSED]
    words += ["--max-examples", str(EXAMPLES), "--generation-database", "none", "--phases", PHASES]
    command = [str(BIN / "schemathesis"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, cwd=folder)


@pytest.mark.programme
def test_what_the_document_says_is_so(tmp_path: Path) -> None:
    """No 5xx and no schema violation; the control is a document that promises something else."""
    seed = seed_of_chance()
    config, port = with_gateway(tmp_path, eager=True, edit=[OPEN])
    base = f"http://127.0.0.1:{port}"
    with running(config) as host:
        done = examined(tmp_path, f"{base}/.well-known/openapi.json", base, seed)
        print(done.stdout[-6000:], done.stderr[-2000:])
        assert done.returncode == 0 and "Tested: 12" in done.stdout
        assert not any("Traceback" in line for line in host.lines), "\n".join(host.lines)
        if not length(False, True):
            return  # The control takes as long again.
        document: Any = ask(port, "GET", "/.well-known/openapi.json").value
        document["paths"] = {"/text": document["paths"]["/text"]}
        document["components"]["schemas"]["ECHO_text_output"]["required"] = ["never"]
        wrong = tmp_path / "wrong.json"
        wrong.write_text(json.dumps(document))
        control = examined(tmp_path, str(wrong), base, seed)
        assert control.returncode == 1 and "never" in control.stdout
