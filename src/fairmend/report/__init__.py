"""Telling it: what a repair does, as data, in words, as tables, charts and pages."""
