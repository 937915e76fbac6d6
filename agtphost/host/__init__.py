"""
The composition root of a host: the only package that knows concrete classes.

Build steps, in order:

- :mod:`.host_loader` reads the configuration and everything it names, and checks it; it uses :mod:`.agents`,
  :mod:`.bindings` and :mod:`.handler_factory`. :mod:`.unmatched` finds names that match nothing,
  :mod:`.called_endpoints` endpoints of ``[methods]`` that cannot answer, :mod:`.client_reach`
  clients that can reach nothing; :mod:`.start_files` stamps the files that it reads
- :mod:`.assembly` builds the services from what was loaded and a reactor; it reads as a bill of materials
- :mod:`.evidence`: store, ledger and summaries (:mod:`.summary_writer`); :mod:`.verifications`: its verifications
- :mod:`.services` and :mod:`.registry`: the services that every part uses, and the table of what can be called;
  :mod:`.running_host`: the host as its features see it;
  :mod:`.process_state`: the part of it that outlives a reload
- :mod:`.core`: what answers requests under one configuration; :mod:`.generations`: replacing one core by the next
- :mod:`.reloader`, with :mod:`.reload_candidate`: reload without a restart;
  :mod:`.configuration_bindings`: reload by a request over AGTP
- :mod:`.upstreams`, with :mod:`.a2a`: hosted MCP servers, A2A agents and ACP servers; :mod:`.server_pool`: upstreams
  that a reload keeps
- :mod:`.methods`, with :mod:`.delegation` and :mod:`.negotiation`: the protocol's own methods
- :mod:`.orchestration`: workflows and subscriptions, resumed at start
- :mod:`.expiry_watch`: every expiry date that a host knows
- :mod:`.grant_bindings`: the rights that the host grants to agents; :mod:`.scope_names`: the scopes that it asks for;
  :mod:`.rights_watch`: changes of rights, of which open clients hear
- :mod:`.publication`: the manifest and its version; :mod:`.transports`: the carriers that it states
- :mod:`.plugins`: what the operator's own packages provide; :mod:`.plugin_settings` checks their settings
- :mod:`.feature_loading` and :mod:`.features`: the features that are switched on, and what they contribute
- :mod:`.admission`, with :mod:`.oauth`: gates and dispatcher

Services:

- :mod:`.operators`: the operators that the configuration lists
- :mod:`.ordered_services`, with :mod:`.drain_delay`: start and stop in order; :mod:`.service_manager`: notifications
  to systemd
- :mod:`.listener`: listeners of AGTP, and the ready line; :mod:`.surfaces`: listeners of HTTP, for :mod:`.bootstrap`
  and features
- :mod:`.vitals_reader`: the host's vital signs
- :mod:`.notice_queue`, :mod:`.certificate_notices`, :mod:`.domains`, :mod:`.agent_admission`:
  consequences of lifecycle changes of agents
- :mod:`.file_rotation`: keys and endpoint files that change; :mod:`.publication_history`:
  numbers of what is published; :mod:`.newest_key`: the newest signing key, by the store; :mod:`.trust_anchors`: trust
  anchors that are fetched

The process:

- :mod:`.root`: the service that twistd starts; :mod:`.standby`: what it does while another host serves, with
  :mod:`.takeover_files`: what it serves when it takes over, :mod:`.trial_start` and :mod:`.reserved_labels`: what keeps
  a configuration or an agent from being taken then;
  :mod:`.process_description`: what a host reports of itself to the others of its store;
  :mod:`.pod_label`: in Kubernetes, which host serves;
  :mod:`.rehearsal`: the same for ``agtp check``
- :mod:`.signals`, :mod:`.reload_plan`, :mod:`.start_failure`: SIGHUP, what a reload applies, and shutdown
- :mod:`.log_file`: the files of the log; the rest of it is in :mod:`agtphost.logs`
- :mod:`.server_check`: the lists that ``agtp check --ask`` gets from MCP servers
"""
