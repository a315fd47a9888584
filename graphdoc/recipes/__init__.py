"""Recipes, one a task, each with its data, objective and evaluation."""
