"""PDF to sections: characters and places by PDFium (extra ``ingest``); lines, paragraphs and headings by rules."""
