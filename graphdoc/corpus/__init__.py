"""Training corpora: documents cut and tokenised once, or streamed."""
