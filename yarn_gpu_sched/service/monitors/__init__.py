"""Node monitors as the service sees them: what they tell, what they are told, and what is made of it."""
