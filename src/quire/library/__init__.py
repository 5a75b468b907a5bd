"""The library: PDFs in a bucket that is its own database and queue.

What a job is and who may change it is decided in `quire.library.protocol`; here are the use cases around it.
"""
