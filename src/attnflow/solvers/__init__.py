"""Maximum flows behind one interface; `cpu` is the solver compiled with numba."""
