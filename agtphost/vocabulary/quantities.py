"""Durations, sizes and counts as text for people."""

from __future__ import annotations


def lasting(seconds: float) -> str:
    """Return a duration as text: ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    length = abs(seconds)
    for most, unit, by in ((120, "s", 1), (7_200, "min", 60), (172_800, "h", 3_600)):
        if length < most:
            return f"{seconds / by:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def size(octets: float) -> str:
    """Return a number of octets as text: ``512 octets``, ``1.5 GiB``."""
    for unit in ("octets", "KiB", "MiB", "GiB"):
        if octets < 1_024 or unit == "GiB":
            break
        octets /= 1_024
    return f"{octets:.0f} {unit}" if unit == "octets" else f"{octets:.1f} {unit}"


def plural(count: object, one: str, many: str = "") -> str:
    """Return a number with its word: ``1 call``, ``2 calls``; what another host says in place of one stays as it is."""
    shown = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{shown} {one if count == 1 else many or f'{one}s'}"
