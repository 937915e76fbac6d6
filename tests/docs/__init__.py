"""What docs/ holds: pages that follow from the code are those that follow, the site builds, every command is run."""
