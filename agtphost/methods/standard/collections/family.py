"""What answers the methods that read and change collections."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.methods.standard.collections.fetch import Fetch, Resources
from agtphost.methods.standard.collections.registration import Importing, Registration
from agtphost.methods.standard.collections.relations import Embedding, Linking
from agtphost.methods.standard.collections.search import Scan, Searching
from agtphost.methods.standard.collections.sync import Syncing
from agtphost.methods.standard.services import MethodServices


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the built-ins that read and change collections, by method."""
    resources = Resources(parts)
    return {
        "FETCH": Fetch(resources),
        "SEARCH": Searching(parts),
        "SCAN": Scan(parts),
        "REGISTER": Registration(parts),
        "IMPORT": Importing(parts),
        "LINK": Linking(parts, resources),
        "EMBED": Embedding(parts, resources),
        "SYNC": Syncing(parts),
    }
