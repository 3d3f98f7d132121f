"""Maximum flows on a GPU, compiled by CuPy when first used (docs/flow.md): `solver` is the way in.

The kernels are `network.cu`, `pour.cu`, `search.cu`, `solve.cu`, `bounds.cu` and `spread.cu`, in
that order one program.
"""
