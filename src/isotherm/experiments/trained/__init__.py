"""Finished runs as subjects of measures, one file a modality: what several measures need of a run, made once."""
