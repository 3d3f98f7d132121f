"""Running models: from an input to its attention, its tokens and what the model said of it."""
