"""Documents of a corpus ranked by each of some of them, in many ways: what a way to search is measured with."""
