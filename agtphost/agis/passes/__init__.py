"""
The eight passes of validation, a module each (AGIS v01 section 9).

Pass 1 examines a tree of values, and its errors end the validation. The others examine a document with a valid
structure, independently of each other, so that one validation reports everything.

- :mod:`.subject`: the input of the passes; :mod:`.suggestions`: suggestions for words that are not methods
- :mod:`.structural`, :mod:`.method_syntax`, :mod:`.method_class`, :mod:`.path_syntax`: passes 1 to 4
- :mod:`.completeness`, :mod:`.consistency`, :mod:`.vocabulary`, :mod:`.contracts`: passes 5 to 8
- :mod:`.similarity`: pass 6 by embeddings, which is optional
"""
