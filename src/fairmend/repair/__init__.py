"""What to do: settings, costs, and one file for each repair method."""
