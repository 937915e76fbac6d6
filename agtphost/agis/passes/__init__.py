"""
The eight passes of validation, a module each (AGIS v01 section 9).

Pass 1 looks at a tree of values, and what it finds ends the examination; the
others look at a document whose structure is sound, each on its own, so that
one examination tells everything.

- :mod:`.subject`: what they are given; :mod:`.instead`: what to say for what is no method
- :mod:`.structural`, :mod:`.method_syntax`, :mod:`.method_class`, :mod:`.path_syntax`: passes 1 to 4
- :mod:`.completeness`, :mod:`.consistency`, :mod:`.vocabulary`, :mod:`.contracts`: passes 5 to 8
- :mod:`.similarity`: what pass 6 says of embeddings, where it is asked for
"""
