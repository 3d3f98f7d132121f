"""Records as files of JSON, one record on a line; compressed where the name ends in ``.gz``."""
