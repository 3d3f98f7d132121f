"""The terminal, figures and the explorer, with one palette and one set of labels."""
