"""What is pushed: device binaries, model folders, the probe; and the content-addressed store on the phone."""
