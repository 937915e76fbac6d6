"""The bill of materials (CycloneDX 1.6) and the list of licences, from the lock file and from what is installed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

from tests.supply.lock import Pin


def normal(name: str) -> str:
    """A package's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(name: str) -> str:
    """What an installed package says of its licence: an SPDX expression, a classifier, or its own words."""
    try:
        said = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    expression = said.get("License-Expression")
    if expression:
        return str(expression)
    classified = [value.rpartition(" :: ")[2] for value in said.get_all("Classifier", []) if "License ::" in value]
    words = str(said.get("License") or "").strip().split("\n")[0]
    return " AND ".join(classified) or words[:80]


def requirements(name: str, known: Sequence[str]) -> list[str]:
    """Which of the known packages a package asks for, whatever for."""
    try:
        asked = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    names = {normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in asked if "extra ==" not in each}
    return sorted(names & set(known))


def bill(pins: Sequence[Pin], version: str) -> dict[str, Any]:
    """
    The SBOM; the same pins give the same octets.

    :param version: of this project.
    """
    names = [pin.name for pin in pins]
    components = [
        {
            "type": "library",
            "bom-ref": _purl(pin),
            "name": pin.name,
            "version": pin.version,
            "purl": _purl(pin),
            "licenses": [{"license": {"name": licence(pin.name)}}] if licence(pin.name) else [],
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in pin.hashes],
        }
        for pin in pins
    ]
    references = {pin.name: _purl(pin) for pin in pins}
    own = f"pkg:pypi/agtphost@{version}"
    dependencies = [{"ref": own, "dependsOn": [references[each] for each in requirements("agtphost", names)]}]
    dependencies += [
        {"ref": _purl(pin), "dependsOn": [references[each] for each in requirements(pin.name, names)]} for pin in pins
    ]
    digest = hashlib.sha256("".join(sorted(references.values())).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "agtphost",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
        "dependencies": dependencies,
    }


def _purl(pin: Pin) -> str:
    return f"pkg:pypi/{pin.name}@{pin.version}"


def licences(pins: Sequence[Pin]) -> str:
    """One line for each package."""
    return "".join(f"{pin.name} {pin.version}: {licence(pin.name) or 'not installed here'}\n" for pin in pins)
