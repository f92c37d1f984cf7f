"""The report as a web page: one file, no network, readable without JavaScript."""
