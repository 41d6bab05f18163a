"""The slots (folders) and components (files) of a Vision Transformer; ``ls`` shows what there is."""
