"""
The operators' page: views of the host in the browser, entered by a link of ``agtp page``
or with a certificate of the browser's own.

Whatever it shows or does is a request of AGTP, made as the person who looks; it has no other way in. Every view is
complete HTML without a script.

- :mod:`.resource`: its HTTP: who is let in, what is where, and what becomes of a form
- :mod:`.entrance`: links that are good once, and the sessions that they open
- :mod:`.browsers`, :mod:`.entering`: certificates of browsers, listed, and entering with one in place of a link
- :mod:`.fields`: header fields of its answers, and the cookie of a session
- :mod:`.asking`: requests to the dispatcher, and what they are answered
- :mod:`.visit`: one look at one view
- :mod:`.layout`: the frame around every view
- :mod:`.markup`: tags as octets of HTML
- :mod:`.parts`: tables, facts, forms: what views are made of
- :mod:`.text`: values as text for people
- :mod:`.notes`: pages that are no views
- :mod:`.actions`: what can be done: forms, and the request that each becomes
- :mod:`.views`: which view is where
- :mod:`.now`: whether all is well
- :mod:`.inbox`: everything that waits for a person
- :mod:`.calls`, :mod:`.call`: calls that wait, come and are over, and one of them
- :mod:`.live`: the feed of calls as they are recorded
- :mod:`.agents`: agents, and changing their state
- :mod:`.sessions`: sessions, and what stands still
- :mod:`.tools`: servers behind the host
- :mod:`.chains`: chains and the tree over all records
- :mod:`.can`: what would be decided about a call
- :mod:`.contracts`: what was negotiated
- :mod:`.configuration`: what the host runs with
- :mod:`.exporting`: chains and ranges to take away, as files that verify without any host
- :mod:`.evidence`: records, proofs and keys for the script, which verifies them in the browser
"""
