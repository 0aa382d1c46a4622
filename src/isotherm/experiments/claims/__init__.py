"""Ways a claim is judged."""
