"""Training with Lightning: the only home of pytorch_lightning, with apps/train*.py."""
