"""Repair without the group: the rule, the gaps it closes, the search for it."""
