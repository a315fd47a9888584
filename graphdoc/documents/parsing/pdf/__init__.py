"""PDF to sections: characters and places by PDFium; lines, paragraphs and headings by rules."""
