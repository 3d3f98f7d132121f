"""Compiled with numba: `cpu` solves maximum flows (docs/flow.md), `rows` prepares their edges."""
