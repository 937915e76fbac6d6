"""
What composition and contracts cost, relative to a direct call of the same endpoint: ``python -m tests.bench.composed``.

One connection, one call at a time, interleaved rounds. A step of a recipe is a call of its own, with every gate and a
signed, durable record; so a recipe of one step is about two direct calls, and each further step one more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from agtphost.client.sync import Client
from tests.bench.load import Client as Raw
from tests.bench.load import client_context
from tests.system.hosting import ETC, Host, agtp, running, sample

POLICIES = """
[policies.rcns]
enabled = true
min_trust_tier = 2
"""

STEP = """
[[recipe.step]]
method = "ECHO"
path = "/text"
input = {{ text = "=input.text" }}
capture = "said{number}"
"""

RECIPE = """
[[recipe]]
name = "echo-{steps}"
version = "1"
description = "Says a text {steps} times."
output = {{ text = "=said1.text" }}
{body}
[recipe.endpoint]
method = "TRANSLATE"
path = "/echoes/{steps}"
description = "Says a text {steps} times."

[recipe.endpoint.semantic]
intent = "Hear a text {steps} times."
actor = "agent"
outcome = "The text was said."
capability = "notification"
confidence = 1.0
impact = "informational"
is_idempotent = true

[recipe.endpoint.input_schema]
type = "object"
additionalProperties = false
required = ["text"]
properties = {{ text = {{ type = "string" }} }}

[recipe.endpoint.output_schema]
type = "object"
additionalProperties = false
required = ["text"]
properties = {{ text = {{ type = "string" }} }}
"""

ENDPOINT = """
method = "TRANSLATE"
path = "/composed/{steps}"
description = "Says a text {steps} times."
errors = ["composition_failed"]

[handler]
type = "composition"
recipe = "echo-{steps}"

[semantic]
intent = "Hear a text {steps} times."
actor = "agent"
outcome = "The text was said."
capability = "notification"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
required = ["text"]

[input_schema.properties]
text = {{ type = "string" }}

[output_schema]
type = "object"
additionalProperties = true
required = ["text"]

[output_schema.properties]
text = {{ type = "string" }}
"""

STEPS = (1, 4)


def deployment(folder: Path) -> Path:
    """The sample host with recipes of one step and of four, each declared as an endpoint and open to contracts."""
    config = sample(folder, append=POLICIES)
    recipes = (ETC / "recipes.toml").read_text()
    for steps in STEPS:
        body = "".join(STEP.format(number=number) for number in range(1, steps + 1))
        recipes += RECIPE.format(steps=steps, body=body)
        (config.parent / "endpoints" / f"composed{steps}.toml").write_text(ENDPOINT.format(steps=steps))
    (config.parent / "recipes.toml").write_text(recipes)
    with running(config):
        pass
    done = agtp("agent", "new", "negotiator", "--scope", "rcns:negotiate", cwd=config.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return config


def contract(host: Host, path: str) -> str:
    """A contract for a recipe's endpoint, from the gate."""
    folder = host.state / "agents" / "negotiator"
    with Client(trust=host.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key") as client:
        offer = client.call(host.uri, "TRANSLATE", path, {"text": "x"}, headers=[("Allow-RCNS", "true")])
        assert offer.status == 461, offer.json()
        return str(offer.json()["synthesis_id"])


class Caller:
    """One request, again and again, over one connection."""

    def __init__(self, host: Host, method: str, path: str, *headers: str) -> None:
        folder = host.state / "agents" / "negotiator"
        body = json.dumps({"parameters": {"text": "the quick brown fox"}}).encode()
        lines = [f"AGTP/1.0 {method} {path}", "Content-Type: application/vnd.agtp+json", *headers]
        request = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
        context = client_context(host.state / "ca.pem", folder / "agent.pem", folder / "agent.key")
        self._raw = Raw(("127.0.0.1", host.port), context, lambda: request)
        self.seconds: list[float] = []

    def round(self, calls: int) -> None:
        for _ in range(calls):
            begun = time.perf_counter()
            self._raw.send()
            answer = None
            while answer is None:
                answer = self._raw.receive()
            self.seconds.append(time.perf_counter() - begun)
            assert answer.startswith(b"AGTP/1.0 200"), answer[:400]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) * 1000


def compare(host: Host, *, rounds: int = 5, calls: int = 200) -> dict[str, float]:
    """Medians in milliseconds, and the ratios that matter."""
    callers = {"direct": Caller(host, "ECHO", "/text")}
    for steps in STEPS:
        callers[f"recipe of {steps}"] = Caller(host, "TRANSLATE", f"/composed/{steps}")
    synthesis_id = contract(host, "/echoes/1")
    callers["contract of 1"] = Caller(host, "TRANSLATE", "/echoes/1", f"Contract-Synthesized: {synthesis_id}")
    for caller in callers.values():
        caller.round(20)
        caller.seconds.clear()
    for _ in range(rounds):
        for caller in callers.values():
            caller.round(calls)
    medians = {name: caller.median for name, caller in callers.items()}
    few, many = STEPS
    step = (medians[f"recipe of {many}"] - medians[f"recipe of {few}"]) / (many - few)
    return {
        **{f"{name} ms": round(value, 3) for name, value in medians.items()},
        "one more step / direct call": round(step / medians["direct"], 2),
        f"recipe of {few} / direct call": round(medians[f"recipe of {few}"] / medians["direct"], 2),
        "contract / the same recipe without": round(medians["contract of 1"] / medians[f"recipe of {few}"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, running(deployment(Path(temporary))) as host:
        print(json.dumps(compare(host, rounds=given.rounds), indent=2))


if __name__ == "__main__":
    main()
