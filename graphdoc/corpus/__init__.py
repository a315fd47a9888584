"""Training corpora: documents cut and tokenized once, or streamed."""
