"""
``host.toml`` as one frozen value; the only reader of the environment.

- :func:`.loader.load`: reads a file into a :class:`.sections.Config`, or reports every problem of it
- :func:`.lenient.read_leniently`: reads the sound part of a file, for commands that talk to a running host
- :mod:`.sections`, :mod:`.policies`, :mod:`.upstreams`: what each section may say
- :mod:`.cures`: cures of faults, each of which was tried
- :mod:`.checks`: rules beyond single keys, such as missing key files
- :mod:`.profiles`: the ``agtp`` command's own file, for remote hosts
- :mod:`.secret`: values that never show themselves
- :mod:`.plugins`: parts that the operator's own packages provide
- :mod:`.faults`: validation errors in the words of the file
- :mod:`.agis`: ``[agis]``: what AGIS documents say of this host
- :mod:`.admin`: ``[admin]``: the operators' page
- :mod:`.anchors`: ``[[identity.anchor]]``: who may issue a Genesis, by key or by identity provider
- :mod:`.approvals`: ``[approvals]``: which calls wait for a person, and who decides about them
- :mod:`.attestation`: ``[attestation]``: evidence of what this host runs on, for others to appraise
- :mod:`.bounds`: what bounds calls: ``[[policies.scope_dimensions]]``
- :mod:`.cluster`: ``[cluster]``: hosts that share a store, of which one serves
- :mod:`.delegation`: ``[delegation]``: how far callers may hand on what they may do
- :mod:`.gateway`: ``[gateway]``: where any HTTP client calls what AGTP's own clients call
- :mod:`.operators`: ``[[operator]]``: the people who run the host, by name, key and role
- :mod:`.grants`: ``[[grant]]``: what the host lets an agent call, from the file
- :mod:`.http`: what the sections have in common that serve HTTP
- :mod:`.search`: by what this host finds what there is
- :mod:`.surfaces`: every surface that speaks HTTP, and what is wrong between those that share a listener
- :mod:`.launch_script`: which script a command of an interpreter runs
- :mod:`.limits`: ``[limits]``: what one peer, one agent and all together may cost this host
- :mod:`.replacement`: single values replaced in what was read already
- :mod:`.reloadable_keys`: which keys a running host takes, and which wait for a restart
- :mod:`.mcp_front`: ``[mcp.front]``: where MCP clients reach this host without a bridge
- :mod:`.tool_requirements`: what tools of MCP servers require of their callers
- :mod:`.prices`: ``[[methods.price]]``: what calls take, as the operator estimates it
- :mod:`.signing_keys`: ``[[methods.signing_key]]``: keys of organizations that SIGN signs with
- :mod:`.send_targets`: what leaves AGTP by SEND, and what CONNECT may connect
- :mod:`.methods`: ``[methods]``: the standard methods that are on, and what they keep
- :mod:`.metrics`: ``[metrics]``: where this host tells in numbers how it is
- :mod:`.quic`: ``[quic]``: whether the host also listens for AGTP over QUIC; :mod:`.quic_warnings`: what lacks for it
- :mod:`.file_access`: files that other users can change
- :mod:`.registry`: ``[registry]``: cards of agents, and how those elsewhere are reached
- :mod:`.merchant`: ``[merchant]``: what hosted merchants ask of PURCHASE, and how long their quotes are good
- :mod:`.oauth`: ``[policies.oauth]``: external credentials, and who may issue them
- :mod:`.web_upstreams`: ``[[a2a.agent]]``, ``[[acp.agent]]`` and ``[a2a.front]``: A2A and ACP, behind this host and
  before it
- :mod:`.anchor_checks`: rules that span several keys of ``[[identity.anchor]]`` and ``[identity] registrars``
- :mod:`.web_upstreams_checks`: rules that span several keys of ``[a2a]`` and ``[acp]``
- :mod:`.key_lines`: the lines of its keys, for messages while it is in use
- :mod:`.presence`: what a configuration says of its domain: the facts of the bootstrap document
- :mod:`.published`: what is published besides the endpoints: ``[[api]]``, ``[[data_class]]``, ``[manifest]``,
  ``[wellknown]``
- :mod:`.published_checks`: what no key tells alone of the sections in :mod:`agtphost.config.published`
- :mod:`.tls`: ``[tls]``: the host's certificates, and what it asks of clients
- :mod:`.traces`: ``[traces]``: OpenTelemetry traces of calls, sent to a collector
- :mod:`.values`: the kinds of values that sections are made of, and how each is read from what the file says
- :mod:`.witness_settings`: hosts that witness this one's log, and logs that this one witnesses
- :mod:`.listen_checks`: rules of `[listen]` that span several keys
- :mod:`.store_checks`: rules of `[store]` that span several keys
- :mod:`.witness_checks`: what witnesses and witnessed logs need besides sound keys
"""

from agtphost.config.loader import Reading, examine, line_of, load, problems_in
from agtphost.config.policies import MethodPolicy, Policies, Redirect
from agtphost.config.profiles import Profile, load_profile
from agtphost.config.secret import Secret
from agtphost.config.sections import Config
from agtphost.config.upstreams import MCPServerSection, ToolOverride

__all__ = [
    "Config",
    "MCPServerSection",
    "MethodPolicy",
    "Policies",
    "Profile",
    "Reading",
    "Redirect",
    "Secret",
    "ToolOverride",
    "examine",
    "line_of",
    "load",
    "load_profile",
    "problems_in",
]
