"""Results for people: a table on the terminal, and a page with plots that opens without internet."""
