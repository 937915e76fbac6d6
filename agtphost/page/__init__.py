"""
Serve the operators' page: views of the host in the browser, entered by a link of ``agtp page`` or with a certificate of
the browser.

Everything it shows or does is a request of AGTP, made as the person who uses it; it has no other access to the host.
Every view is complete HTML without a script.

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
- :mod:`.actions`: forms, and the request that each becomes
- :mod:`.views`: the paths of the views
- :mod:`.overview`: whether the host is healthy
- :mod:`.inbox`: everything that waits for a person
- :mod:`.call_list`, :mod:`.call`: waiting, new and past calls, and one of them
- :mod:`.call_filters`, :mod:`.completions`: the filter of past calls, and words that complete it
- :mod:`.call_steps`: a call as a timeline
- :mod:`.time_range`, :mod:`.histogram`: a chosen range of time, and the calls in it
- :mod:`.live_feed`: the feed of calls as they are recorded
- :mod:`.agents`: agents, and changes of their state
- :mod:`.sessions`: sessions, and suspended tasks
- :mod:`.tools`: servers behind the host
- :mod:`.chains`: chains and the tree over all records
- :mod:`.decision_view`: the decision about a hypothetical call
- :mod:`.contracts`: negotiated contracts
- :mod:`.configuration`: the configuration in force
- :mod:`.record_export`: exports of chains and ranges, as files that verify without a host
- :mod:`.evidence`: records, proofs and keys for the script, which verifies them in the browser
"""
