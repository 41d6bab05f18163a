"""Findings: verdicts, and the answers that are made of them."""
