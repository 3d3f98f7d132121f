"""Finding out what a network does by running it, instead of assuming it from its name.

    deciding    which positions its outputs depend on
    padding     whether a batch changes results; short samples, each tried once for a network
    mixing      whether tokens reach each other past attention
    layers      which modules are its layers
    memory      whether all heads fit into memory, with gradients or scores of each

What can't be found out is an error, never a guess.
"""
