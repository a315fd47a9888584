"""Training: one trainer, one batch type and one checkpoint format for all recipes."""
