"""Where strictreply meets libraries that call models themselves: one module or package for each, none imported here."""
