"""The phone's services and commands, run inside the phone. Standard library only, small, and quick to start."""
