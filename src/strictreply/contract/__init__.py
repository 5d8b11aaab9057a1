"""What a reply may be: tools, answers, and the one judge of replies."""
