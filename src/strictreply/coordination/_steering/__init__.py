"""What happens after a bad reply: the words, the budgets and the policy for errors."""
