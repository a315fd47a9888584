"""The HTML reports."""
