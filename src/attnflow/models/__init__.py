"""Running models: from an input to its tokens, its attention and the model's prediction."""
