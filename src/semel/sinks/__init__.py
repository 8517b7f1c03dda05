"""How feeds become visible."""
