"""ADB: servers, transports, shell, push and pull. Knows no MNN.

The client speaks to the adb *server* over its socket and never runs an adb program against a server that is up: a
client of another version would kill it, and everybody's phones with it.
"""
