"""Ingest: PDFs from this machine's folders into the library."""
