"""Published tables as CSV files in which geounits have their names, for whoever opens them by hand."""
