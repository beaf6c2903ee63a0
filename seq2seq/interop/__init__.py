"""Other libraries' formats. What each of them cannot represent is known without the library.

Of a library x, x.py writes models there, x_engine.py translates with them, x_source.py reads its
models; x_names.py is for both directions.
"""
