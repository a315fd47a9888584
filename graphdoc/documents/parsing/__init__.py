"""Files, markup and rows to sections: one parser for each kind of file, each imported when it is first needed."""
