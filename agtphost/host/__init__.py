"""
The composition root: the only place that knows concrete classes.

What is built, in order:

- :mod:`.loaded`: configuration in, everything loaded and checked out; from :mod:`.agents`, :mod:`.bindings` and
  :mod:`.handler_factory`; :mod:`.unmatched` finds names that match nothing, :mod:`.reach` clients that reach nothing
- :mod:`.assembly`: what is loaded and a reactor in, services out; reads as a bill of materials
- :mod:`.evidence`: store, ledger, witnesses (:mod:`.witnesses`; :mod:`.verifications`), summaries (:mod:`.refusals`)
- :mod:`.foundation` and :mod:`.registry`: what every part stands on, and what can be called; :mod:`.lasting` and
  :mod:`.standing`: what of it is the same under every configuration; :mod:`.computing`: work off the reactor
- :mod:`.core`: what answers requests under one configuration; :mod:`.generations`: one after the other
- :mod:`.reloading`, with :mod:`.candidate` and :mod:`.modules`: change without a restart;
  :mod:`.configuring`: asked for over AGTP
- :mod:`.upstreams`, with :mod:`.a2a`: hosted MCP servers, A2A agents and ACP servers; :mod:`.supply`: those that go on
- :mod:`.methods`, with :mod:`.floor`, :mod:`.delegation`, :mod:`.merchant` and :mod:`.negotiation`: the protocol's own
- :mod:`.standard`: the standard methods that are on, and the operator's endpoints in their place
- :mod:`.orchestration`: workflows and subscriptions, taken up at start
- :mod:`.expiry`: the one place that knows everything of a host that ends
- :mod:`.granting`: what the host lets agents do
- :mod:`.cards`, with :mod:`.kept_cards`, :mod:`.card_calls`, :mod:`.card_peers` and :mod:`.card_watch`: the registry
- :mod:`.publication`: the manifest and its version
- :mod:`.plugins` and :mod:`.observers`: what the operator's own packages provide; :mod:`.plugin_settings` checks
  their settings
- :mod:`.admission`, with :mod:`.oauth`: gates and dispatcher

Services:

- :mod:`.searching`: what searches: one engine for each ``[search]``
- :mod:`.services`: start and stop in order; :mod:`.service_manager`: what systemd is told
- :mod:`.listener`: where connections come in, and the line that says ready; :mod:`.surfaces`: where HTTP is spoken, for
  :mod:`.bootstrap`, :mod:`.own_documents`, :mod:`.agis`, :mod:`.a2a_front`, :mod:`.gateway`, :mod:`.registry_http`,
  :mod:`.mcp_front`, :mod:`.page` and :mod:`.metrics`, which tells what :mod:`.vitals` asks; :mod:`.http_clients`: who
  may call there
- :mod:`.clock_watch`: the system's clock, whose jumps are put on record
- :mod:`.looking`: what several of them are, which look at something again and again
- :mod:`.propagation`, :mod:`.certificate_notices`, :mod:`.domains`, :mod:`.partings`, :mod:`.agent_admission`: what
  follows from what happens to agents
- :mod:`.rotation` and :mod:`.revision`: keys and endpoint files that change; :mod:`.anchors`: trust that is fetched

The process:

- :mod:`.root`: the service that twistd starts; :mod:`.rehearsal`: the same for ``agtp check``
- :mod:`.signals`, :mod:`.hang_up`, :mod:`.standing_down`: SIGHUP, what it takes, and the end
- :mod:`.log_file`, :mod:`.log_throttle`, :mod:`.call_events`, :mod:`.access_log`: the log
- :mod:`.traces`: what gives calls their spans, where the operator wants any
- :mod:`.asking`: what a start asks of upstreams
"""
