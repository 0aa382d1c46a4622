"""What a run learns from, one file per modality."""
