"""Whether contributions and attention explain what a model does."""
