"""What models are trained for: one recipe a task, each with its data, objective and evaluation."""
