"""What the columns of a table are."""
