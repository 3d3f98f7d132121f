"""Sounds: models that hear, and those that write what they hear.

`waves` and `sounds` read files and arrays, `frames` knows which samples a token stands for.
"""
