"""Maximum flows on the CPU, compiled with numba (docs/flow.md): `solver` is the way in."""
