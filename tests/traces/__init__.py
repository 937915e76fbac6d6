"""Spans, and how they leave the process."""
