"""The studio: from a vendor's file to a filed report in the browser, without a command.

It runs the command line in processes of its own and shows their figures, so that what it shows and
what the command line says are the same. A project is a folder of plain files.
"""
