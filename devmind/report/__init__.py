"""results.json and what is made of it: a page to show each other, a table for the terminal."""
