"""Judging explanations: importance by blanking and gradients, and how far explanations agree."""
