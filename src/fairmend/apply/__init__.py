"""Doing it: draws that belong to people, batches, files and folders."""
