"""Runs over data sets: shards that appear whole or not at all, and how they are read.

    options, manifest       what is asked for, and the record of it
    engine                  which shards are missing
    pool, cluster, remote   the workers that make them: here, in processes, on a Ray cluster
    work, shards            what a worker does with the rows of a shard, and its file
    lock                    one process at a time runs into a folder
    reading, verified       a run as a table and as attributions, its checksums verified

The same rows give the same bytes, whichever workers make them.
"""
