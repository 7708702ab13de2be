"""From a crash to the layer that broke: reads texts and facts, matches rules, gives findings. Never a connection."""
