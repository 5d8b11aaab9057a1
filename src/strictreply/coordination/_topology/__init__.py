"""Who may hand over to whom: the graph, what it is declared from, and its picture."""
