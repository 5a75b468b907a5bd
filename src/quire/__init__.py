"""Quire: durable document pipelines. A folder goes in, every file comes out."""

__version__ = "0.1.0"
