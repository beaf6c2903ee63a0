"""The network: tensors only, no text, no files.

The letters in shapes, here and everywhere else:

    B batch       S source tokens   T target tokens   D model width    V vocabulary
    Q queries     K keys            H heads           E head width     F feed-forward width
    W beams of one sentence         R rows of the decoder, B * W      L layers
    N any number: positions of a row, target tokens of a loss, folded heads B * H
    M vectors of an unpadded layout: the tokens, rounded up
"""
