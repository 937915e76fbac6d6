"""
Standard methods that work on what their callers send, and change nothing: methods v01 sections 3.6, 4, 6.1 and 6.5.

Each is a function from parameters to a result, bounded before it begins; :mod:`.handlers` binds them, and the
dispatcher runs them: in a worker process where they may take long.

- :mod:`.item_criteria`: criteria over stored items, for SEARCH and SCAN
- :mod:`.material`: rows and texts of what callers send, within bounds
- :mod:`.criteria`, :mod:`.queries`: conditions on a record, as an object and as JMESPath
- :mod:`.comparisons`: comparisons of a number with a text, counted for a warning
- :mod:`.formats`: JSON, JSON lines, YAML and CSV; :mod:`.number_columns`: which columns of CSV are numbers
- :mod:`.dates`: dates as people write them
- :mod:`.languages`: BCP 47; :mod:`.currencies`: the codes of ISO 4217
- :mod:`.filter_records`: FILTER; :mod:`.rank`: RANK; :mod:`.classify`: checks around providers of CLASSIFY
- :mod:`.statistics`: ANALYZE; :mod:`.calculate`: CALCULATE; :mod:`.scorecards`: EVALUATE; :mod:`.merge`: MERGE
- :mod:`.map_fields`: MAP; :mod:`.transform`: TRANSFORM; :mod:`.normalize`: NORMALIZE
- :mod:`.extraction`: checks around providers of EXTRACT; :mod:`.validate`: VALIDATE
- :mod:`.templates`: GENERATE without a model
- :mod:`.providers`: what holds around providers of EXTRACT, TRANSLATE, PREDICT, CLASSIFY, GENERATE and RECOMMEND
- :mod:`.collection_methods`: items of collections in place of data
- :mod:`.handlers`: all of them as built-ins
"""
