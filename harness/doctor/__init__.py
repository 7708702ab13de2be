"""What ``mnn-farm doctor`` looks at on this computer: a small function a matter, over a description of the host."""
