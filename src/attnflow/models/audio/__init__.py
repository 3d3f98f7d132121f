"""Sounds: models that classify or transcribe them.

`sounds` reads files and arrays; `model` knows which samples a token stands for.
"""
