"""How an API spells a reply: one module an API. Judging knows none of them."""
