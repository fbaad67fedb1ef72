"""Records: the rows that sums see, and views that map each row on its own."""
