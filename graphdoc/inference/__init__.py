"""From documents to vectors, in constant memory."""
