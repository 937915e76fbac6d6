"""A sound endpoint file that tests break in one place at a time."""

from __future__ import annotations

SOUND = """\
method = "BOOK"
path = "/rooms/{room_id}"
description = "Books a room."
namespace = "reservations"
errors = ["room_unavailable"]
required_scopes = ["booking:room", "calendar:write"]
min_assurance = "certificate"
timeout = 5
strict_output = true
agents = ["librarian"]

[handler]
type = "registered_function"
function = "handlers.rooms.book"

[semantic]
intent = "Book a room."
actor = "patient"
outcome = "The room is taken."
capability = "transaction"
confidence = 0.9
impact = "irreversible"
is_idempotent = false

[input_schema]
type = "object"
additionalProperties = false

[input_schema.properties]
room_id = { type = "string" }
nights = { type = "integer" }

[output_schema]
type = "object"
required = ["reservation_id"]

[output_schema.properties]
reservation_id = { type = "string" }

[deprecated]
deprecated_in = "2.1.0"
removed_in = "3.0.0"
successor = { method = "RESERVE", path = "/rooms" }
"""


def changed(old: str, new: str) -> str:
    """The sound file with the line that begins with ``old`` replaced."""
    lines = SOUND.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith(old)]
    lines[at] = new
    return "\n".join(lines) + "\n"


def without_table(name: str) -> str:
    """The sound file without the table of that name and what is below it."""
    blocks = SOUND.split("\n\n")
    return "\n\n".join(block for block in blocks if not block.startswith((f"[{name}]", f"[{name}.")))
