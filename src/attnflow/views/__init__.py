"""What people look at: the terminal, figures and the explorer, with one palette and labels."""
