"""Measure how plainly the project writes: names of functions, docstrings, comments, messages, docs."""
