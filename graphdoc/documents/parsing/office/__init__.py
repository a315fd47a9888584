"""Files of word processors, presentations, books, notebooks and mail, each read by lxml or the standard library."""
