"""Readers of the formats that evidence comes in. Pure: lines in, lines or facts out."""
