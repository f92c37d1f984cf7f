"""Databases that keep decision logs, one file each."""
