"""What one agent may do: the actions, their shapes, and who is permitted which."""
