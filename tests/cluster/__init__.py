"""Several hosts with one store: which one serves, and what a takeover costs."""
