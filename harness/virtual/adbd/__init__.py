"""The phone's adbd. It runs inside the sandbox with the standard library alone, so no path leads out of the phone."""
