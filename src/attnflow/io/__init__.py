"""Inputs in the forms that callers give, files to write, progress."""
