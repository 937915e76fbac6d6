"""AGIS documents."""
