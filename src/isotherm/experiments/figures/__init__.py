"""Figures of studies: from records to charts."""
