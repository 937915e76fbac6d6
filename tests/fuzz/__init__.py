"""Fuzz targets; each holds its invariants in a plain function and runs a short while in the ordinary suite."""
