"""The README.md of a Hugging Face folder."""

from seq2seq.model_folder import SavedModel

_CARD = """---
{languages}library_name: transformers
pipeline_tag: translation
---

# Translation{direction}

A Transformer with {encoder_layers} + {decoder_layers} layers of width {d_model}, {parameters}
parameters, trained with seq2seq-lightning and written as a `{model_class}`.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

Logits, log-probabilities of given translations and greedy output are those of seq2seq. What is not:

- Greedy search is the default; nearest to `seq2seq translate` is
  `generate(**batch, num_beams=5, length_penalty=1.0, early_stopping=True)`. There is no length
  penalty `gnmt`.
- A translation has at most {longest} subwords; in seq2seq, twice those of the source and ten.
- A text of more than {longest} subwords is an error{why}.
- `</s>`, `<pad>` and `<unk>` in a text, and `>>xx<<` at its start, are read as one token; seq2seq
  reads them as text. Control characters are left as they are.
"""


def model_card(saved: SavedModel, model_class: str, longest: int) -> str:
    """What it is, how to use it, what is not as in seq2seq."""
    config = saved.network.config
    codes = [code for code in (saved.src_lang, saved.tgt_lang) if code]
    return _CARD.format(
        languages="".join(["language:\n", *(f"- {code}\n" for code in codes)]) if codes else "",
        direction=f" from {codes[0]} to {codes[1]}" if len(codes) == 2 else "",
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        d_model=config.d_model,
        parameters=f"{sum(p.numel() for p in saved.network.parameters()):,}",
        model_class=model_class,
        longest=longest,
        why=", which seq2seq can translate" if config.positions == "sinusoidal" else "",
    )
