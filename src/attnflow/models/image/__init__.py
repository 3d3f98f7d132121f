"""Images: vision transformers, towers of texts and images, and models that read both at once."""
