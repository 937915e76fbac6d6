"""Functions behind the sample endpoints: one module for each TOML file in ../endpoints."""
