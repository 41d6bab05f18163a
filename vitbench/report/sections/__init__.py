"""Sections: what a report says, each part as blocks of a document."""
