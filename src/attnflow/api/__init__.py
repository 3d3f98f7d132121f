"""The public functions: one file each, thin around a session or a graph."""
