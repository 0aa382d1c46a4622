"""Isotherm: the workbench for contrastive representation learning."""

__version__ = "0.1.0"
