"""The checks of spec wire-protocol 8, by number, against a real broker."""
