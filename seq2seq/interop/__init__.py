"""Other people's formats, a file for each format and direction; imports their libraries."""
