"""How Sphinx makes a site of this directory: ``python -m sphinx -W --keep-going -b html docs build/site``."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from agtphost import __version__  # noqa: E402

project = "agtphost"
author = "the authors of agtphost"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "interfaces"]
exclude_patterns = ["changes"]
html_theme = "furo"
html_title = f"agtphost {__version__}"
html_show_copyright = False

# Literal blocks are commands and their output, or host.toml; those that are something else say so.
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
