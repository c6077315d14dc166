"""One file for each exhibit of the paper: a question, its runs, a measure, its exhibits."""
