"""Other libraries' formats. What each of them cannot represent is known without the library."""
