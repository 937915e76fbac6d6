"""Events of the host's chain that tell of its configuration."""

from __future__ import annotations

ADOPTED = "configuration-adopted"
"""Another configuration is in force: who asked for it, what was taken, and the SHA-256 of all that was read."""

REFUSED = "configuration-refused"
"""One was found that cannot be: who asked for it, and what is wrong with it."""
