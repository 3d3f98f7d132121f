"""Every type of model in transformers, built small, and what attnflow makes of it."""
