"""To converse: to ask which one is meant where the words leave it open, and to go by the answer."""
