"""Adapters that carry the payloads of other agent frameworks on EXECUTE: core v08 section 8."""
