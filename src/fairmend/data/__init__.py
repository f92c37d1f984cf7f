"""Who came: tables of any kind as columns of codes, read from files or memory."""
