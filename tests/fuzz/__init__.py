"""Fuzz targets: invariants as plain functions, run for a short while in the ordinary suite."""
