"""This computer as a phone: behind the same transport interface, without adb."""
