"""
``host.toml`` as one frozen value; the only reader of TOML and of the environment.

- :func:`.reading.load`: a file into a :class:`.sections.Config`, or every problem at once
- :mod:`.sections`, :mod:`.policies`, :mod:`.upstreams`: what each section may say
- :mod:`.checks`: what no single key can tell, such as missing key files
- :mod:`.profiles`: the ``agtp`` command's own file, for remote hosts
- :mod:`.secret`: values that never show themselves
- :mod:`.lines`: the line of every key
- :mod:`.faults`: validation errors in the words of the file
"""

from agtphost.config.policies import MethodPolicy, Policies, Redirect
from agtphost.config.profiles import Profile, load_profile
from agtphost.config.reading import Reading, examine, load
from agtphost.config.secret import Secret
from agtphost.config.sections import Config
from agtphost.config.upstreams import MCPServer, ToolOverride

__all__ = [
    "Config",
    "MCPServer",
    "MethodPolicy",
    "Policies",
    "Profile",
    "Reading",
    "Redirect",
    "Secret",
    "ToolOverride",
    "examine",
    "load",
    "load_profile",
]
