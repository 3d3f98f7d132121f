"""Finding out what a network does, by running it, instead of assuming it from its name."""
