"""The explorer over HTTP."""
