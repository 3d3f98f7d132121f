"""Finding out what a network does, by running it, instead of assuming it from its name.

    deciding          which positions its outputs depend on
    padding           whether inputs that run together give what each gives alone
    mixing            whether tokens reach each other past attention
    layout, layers    where patches and frames stand; which modules are its layers
    room              whether all heads fit into memory, with gradients or scores of each
    samples, memory   short inputs to try; each answer is found once for a network

What can't be found out is an error, never a guess.
"""
