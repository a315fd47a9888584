"""Figures and pages of what was measured."""
