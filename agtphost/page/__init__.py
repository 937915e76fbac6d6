"""
Serve the operators' page: views of the host in the browser, entered by a link of ``agtp page`` or with a certificate of
the browser.

Everything it shows or does is a request of AGTP, made as the person who uses it; it has no other access to the host.
Every view is complete HTML without a script. Only :mod:`.feature` and :mod:`.access` know parts of the host.

- :mod:`.feature`: what the host takes, for ``[admin]``; the configuration as INSPECT shows it
- :mod:`.access`: the methods about the page: links, rights, and what operators do there

- :mod:`.resource`: its HTTP: admission, routing and form submissions
- :mod:`.entrance`: single-use links, and the sessions that they open
- :mod:`.browser_certificates`, :mod:`.certificate_entry`: the list of browser certificates, and entering with one
  instead of a link
- :mod:`.fields`: header fields of its answers, and the cookie of a session
- :mod:`.person_client`: requests to the dispatcher, and their answers
- :mod:`.page_visit`: one request for one view
- :mod:`.layout`: the frame around every view
- :mod:`.markup`: tags as octets of HTML
- :mod:`.elements`: tables, lists of facts and forms for views
- :mod:`.value_text`: values as text for people
- :mod:`.note_pages`: pages that are not views
- :mod:`.form_fields`, :mod:`.form_requests`: the fields of a form, and the requests that it becomes
- :mod:`.actions`: forms by their path
- :mod:`.views`: the paths of the views
- :mod:`.overview`: whether the host is healthy
- :mod:`.inbox`, :mod:`.inbox_questions`, :mod:`.inbox_evidence`: what waits for a person, and what was decided
- :mod:`.call_list`, :mod:`.call`: waiting, new and past calls, and one of them
- :mod:`.call_filters`, :mod:`.completions`: the filter of past calls, and words that complete it
- :mod:`.call_steps`: a call as a timeline
- :mod:`.time_range`, :mod:`.histogram`: a chosen range of time, and the calls in it
- :mod:`.live_feed`: the feed of calls as they are recorded
- :mod:`.agents`, :mod:`.agent_rights`: agents, changes of their state, and what they may call
- :mod:`.usage`: numbers of calls over a range of time
- :mod:`.sessions`: sessions, and suspended tasks
- :mod:`.tools`, :mod:`.tool_view`: servers behind the host, their tools, and one of these
- :mod:`.tool_trial`, :mod:`.schema_form`: a tool that an operator tries, and the form for its input
- :mod:`.definition_diff`: the differences of two definitions
- :mod:`.chains`: chains and the tree over all records
- :mod:`.decision_view`, :mod:`.access_choices`: the decision about a hypothetical call, and what can be chosen for it
- :mod:`.contracts`: negotiated contracts
- :mod:`.configuration`: the configuration in force
- :mod:`.record_export`: exports of chains and ranges, as files that verify without a host
- :mod:`.evidence`: records, proofs and keys for the script, which verifies them in the browser
"""
