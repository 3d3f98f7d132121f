"""Attributions as text for terminals: any width, with colours and without."""
