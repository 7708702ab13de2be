"""Virtual phones: sandboxes that speak ADB to a real adb server.

They enter the harness only as a provider of phones (entry point ``virtual``) and import nothing of it but
``harness.core``.
"""
