"""What a run learns from, one file a modality."""
