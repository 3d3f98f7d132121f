"""Inputs in the forms that callers give, files to write, progress.

    inputs, pictures    texts and images, one or many
    keywords            names of arguments
    rows, tables        data sets, row by row, and the formats of their files
    files, checkpoint   files that are about to be written; pieces of long work, to be resumed
    progress            how far long work has come

Nothing here knows models or scores.
"""
