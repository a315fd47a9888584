"""Graph kinds: which nodes of a document are connected, one file each."""
