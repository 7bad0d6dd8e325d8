"""Shared code of risks, regularizers, sets and masters, for example capabilities, lines and validation."""
