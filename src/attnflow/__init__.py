"""Where a Transformer's output came from: raw attention, attention rollout, attention flow."""

__version__ = "0.1.0"
