"""Records to tables, figures and pages, without torch."""
