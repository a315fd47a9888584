"""The page of many documents compared with each other."""
