"""The Vision Transformer that components are put into."""
