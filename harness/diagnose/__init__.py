"""The ladder: climbs on one phone until a layer breaks, and finds the nearest settings that work."""
