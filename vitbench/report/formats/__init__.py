"""Formats: a document as Markdown, a page, LaTeX tables, and lines of a terminal."""
