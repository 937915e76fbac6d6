"""
The recipes of a host.

:class:`RecipeBook` is what synthesis and discovery read; :func:`read` and
:func:`settle` make it of ``[recipes] file`` and the operator's endpoints.
"""

from __future__ import annotations

from agtphost.contract.recipes.book import EMPTY, RecipeBook
from agtphost.contract.recipes.settling import NEVER, read, settle

__all__ = ["EMPTY", "NEVER", "RecipeBook", "read", "settle"]
