"""Formats of other toolkits that a model can be read from."""

SOURCES = {
    "huggingface": "seq2seq.interop.huggingface_source",
    "ctranslate2": "seq2seq.interop.ctranslate2_source",
    "joeynmt": "seq2seq.interop.joeynmt_source",
    "fairseq": "seq2seq.interop.fairseq_source",
}
"""A module each, see `sources.Source`, which is imported when it is asked for."""
