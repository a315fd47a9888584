"""HTML pages, and the parts that they share."""
