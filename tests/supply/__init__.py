"""What the host is made of: lock files, SBOM, licences, and that nothing undeclared is imported."""
