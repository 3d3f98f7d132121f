"""Runs over data sets: shards that appear whole or not at all, and how they are read."""
