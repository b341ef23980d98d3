"""results.json and what is made from it: a page, and a table for the terminal."""
