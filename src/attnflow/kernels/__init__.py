"""Maximum flow on arrays, compiled with numba. `cpu` is the way in; see docs/flow.md."""
