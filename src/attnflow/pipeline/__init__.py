"""From an input to its scores: the configuration, a session, and batches of arrays."""
