"""From what an agent said to one reading of it: processors, results, and errors that are no reply."""
