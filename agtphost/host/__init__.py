"""
The composition root of a host: the only package that knows concrete classes.

Build steps, in order:

- :mod:`.loaded` reads the configuration and everything it names, and checks it; it uses :mod:`.agents`,
  :mod:`.bindings` and :mod:`.handler_factory`. :mod:`.unmatched` finds names that match nothing, :mod:`.reach` clients
  that can reach nothing
- :mod:`.assembly` builds the services from what was loaded and a reactor; it reads as a bill of materials
- :mod:`.evidence`: store, ledger, witnesses (:mod:`.witnesses`, :mod:`.verifications`) and summaries (:mod:`.refusals`)
- :mod:`.foundation` and :mod:`.registry`: the services that every part uses, and the table of what can be called;
  :mod:`.lasting` and :mod:`.standing`: the part of it that outlives a reload; :mod:`.computing`: work off the reactor
- :mod:`.core`: what answers requests under one configuration; :mod:`.generations`: replacing one core by the next
- :mod:`.reloading`, with :mod:`.candidate` and :mod:`.modules`: reload without a restart; :mod:`.configuring`: reload
  by a request over AGTP
- :mod:`.upstreams`, with :mod:`.a2a`: hosted MCP servers, A2A agents and ACP servers; :mod:`.supply`: upstreams that a
  reload keeps
- :mod:`.methods`, with :mod:`.floor`, :mod:`.delegation`, :mod:`.merchant` and :mod:`.negotiation`: the protocol's own
  methods
- :mod:`.standard`: the standard methods that are switched on, and the operator's endpoints that replace them
- :mod:`.orchestration`: workflows and subscriptions, resumed at start
- :mod:`.expiry`: every expiry date that a host knows
- :mod:`.granting`: the rights that the host grants to agents
- :mod:`.cards`, with :mod:`.kept_cards`, :mod:`.card_calls`, :mod:`.card_peers` and :mod:`.card_watch`: the registry of
  cards
- :mod:`.publication`: the manifest and its version
- :mod:`.plugins` and :mod:`.observers`: what the operator's own packages provide; :mod:`.plugin_settings` checks their
  settings
- :mod:`.admission`, with :mod:`.oauth`: gates and dispatcher

Services:

- :mod:`.searching`: the search engines, one for each ``[search]``
- :mod:`.services`: start and stop in order; :mod:`.service_manager`: notifications to systemd
- :mod:`.listener`: listeners of AGTP, and the ready line; :mod:`.surfaces`: listeners of HTTP, for :mod:`.bootstrap`,
  :mod:`.own_documents`, :mod:`.agis`, :mod:`.a2a_front`, :mod:`.gateway`, :mod:`.registry_http`, :mod:`.mcp_front`,
  :mod:`.page` and :mod:`.metrics`, which publishes the readings of :mod:`.vitals`; :mod:`.http_clients`: the clients
  that may call there
- :mod:`.clock_watch`: jumps of the system's clock, put on record
- :mod:`.looking`: the base class of services that check something periodically
- :mod:`.propagation`, :mod:`.certificate_notices`, :mod:`.domains`, :mod:`.partings`, :mod:`.agent_admission`:
  consequences of lifecycle changes of agents
- :mod:`.rotation` and :mod:`.revision`: keys and endpoint files that change; :mod:`.anchors`: trust anchors that are
  fetched

The process:

- :mod:`.root`: the service that twistd starts; :mod:`.rehearsal`: the same for ``agtp check``
- :mod:`.signals`, :mod:`.hang_up`, :mod:`.standing_down`: SIGHUP, what a reload applies, and shutdown
- :mod:`.log_file`, :mod:`.log_throttle`, :mod:`.call_events`, :mod:`.access_log`: the log
- :mod:`.traces`: spans of calls, where the operator wants them
- :mod:`.asking`: the lists that ``agtp check --ask`` gets from MCP servers
"""
