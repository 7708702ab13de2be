"""Whether a model's files belong together: graph, embedding, tokenizer and configuration held against each other.

Where each number stands: the graph's last layer says for how many tokens it computes logits; the embedding has a row
for each token, in the weight file where ``tie_embeddings`` says so (MNN's ``TieEmbeddingsInfo``), else in a file of its
own in bf16 (``DiskEmbedding``); the tokenizer knows ids up to its highest. Models pad their rows beyond what the
tokenizer knows (Qwen by 0.3 %), and some tokenizers know an added token or two that the model has no row for (Gemma 3
knows the picture token that its text-only model lacks). Only what no model has is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.payload.mnn_tokenizer import MnnTokenizer
from harness.payload.model_problem import Problem

_BF16_BYTES = 2
_DEFAULT_HIDDEN = 4096
#: Ordinary tokens beyond the rows that an exporter's miscount explains, besides as many as there are special ones
#: (the text formats list some of those twice).
_MISCOUNT = 16
#: Rows without a token: above one in 20 and 128 it is unusual, above half of them no model pads like that.
_UNUSUAL_PART, _UNUSUAL_LEAST = 20, 128
_WRONG_TOKENIZER = "copy the tokenizer that was exported together with this model"


@dataclass(frozen=True)
class Embedding:
    """Where the rows of the embedding lie.

    Attributes:
        key: ``llm_weight`` or ``embedding_file``.
        end: bytes that this file must have at least.
        rows: one for each token; ``None`` where the file's size tells it.
        row_bytes: bytes of a row in a file that holds nothing else; ``None`` for the others.
        scale_bytes: bytes of its scales, which the engine keeps in memory; rows are read from the file one by one.
    """

    key: str
    end: int
    rows: int | None
    row_bytes: int | None
    scale_bytes: int = 0


def embedding_of(config: Mapping[str, Any]) -> Embedding | None:
    """Return where the engine reads the embedding; ``None`` where the configuration cannot be understood."""
    hidden = config.get("hidden_size", _DEFAULT_HIDDEN)
    if not _whole(hidden) or hidden < 1:
        return None
    tied = config.get("tie_embeddings")
    if isinstance(tied, dict):
        numbers = [tied.get(key, 0) for key in ("weight_offset", "alpha_offset", "alpha_size", "quant_bit")]
    elif isinstance(tied, list) and len(tied) >= 5:
        numbers = tied[:4]
    else:
        return Embedding("embedding_file", 1, None, hidden * _BF16_BYTES)
    if not all(_whole(number) and number >= 0 for number in numbers):
        return None
    offset, scales, scales_bytes, bits = numbers
    rows = (scales - offset) * 8 // (bits * hidden) if bits and scales > offset else None
    file = "llm_weight" if offset else "embedding_file"
    return Embedding(file, max(offset, scales + scales_bytes), rows, None, scales_bytes)


def check_embedding(embedding: Embedding, file: str, size: int, logits: int | None) -> tuple[int | None, list[Problem]]:
    """Return how many rows there are, and what is wrong with the file that holds them.

    Args:
        embedding: where they should be.
        file: its path, for people.
        size: its bytes.
        logits: for how many tokens the graph computes.
    """
    what = f"{file} ({embedding.key})"
    if size < embedding.end:
        said = f"{what} is cut off: it has {size} bytes and the embedding reaches to {embedding.end}"
        return embedding.rows, [Problem("embedding_short", said)]
    rows = embedding.rows
    if embedding.row_bytes:
        rows, rest = divmod(size, embedding.row_bytes)
        if rest:
            said = f"{what} is cut off: {size} bytes are no whole number of rows of {embedding.row_bytes} bytes"
            return rows, [Problem("embedding_short", said)]
    if rows is not None and logits is not None and rows < logits:
        said = f"{what} has an embedding of {rows} tokens and the graph computes {logits}"
        return rows, [Problem("embedding_short", said)]
    return rows, []


def check_tokenizer(tokenizer: MnnTokenizer, file: str, rows: int, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what speaks against a tokenizer being that of a model with ``rows`` tokens."""
    what = f"{file} (tokenizer_file)"
    beyond = [token for token in tokenizer.prefix_ids if token >= rows]
    if beyond:
        said = f"{what} begins every prompt with token {beyond[0]} and the model has {rows}"
        yield Problem("special_id_beyond", said, _WRONG_TOKENIZER)
    if tokenizer.stop_ids and min(tokenizer.stop_ids) >= rows:
        said = f"{what} ends an answer at token {min(tokenizer.stop_ids)} and the model has {rows}: no answer would end"
        yield Problem("special_id_beyond", said, _WRONG_TOKENIZER, warning=True)
    if tokenizer.tokens is not None and tokenizer.ordinary is not None:
        yield from _check_count(what, tokenizer.tokens, tokenizer.ordinary, len(tokenizer.special_ids), rows)
    yield from _check_words(what, tokenizer, config)


def check_ids(config: Mapping[str, Any], file: str, rows: int) -> Iterator[Problem]:
    """Yield the special ids that a configuration names and the model does not have."""
    for key, value in config.items():
        if key.endswith(("_token_id", "_pad", "vision_start", "vision_end")):
            ids = [number for number in (value if isinstance(value, list) else [value]) if _whole(number)]
            if max(ids, default=0) >= rows:
                said = f"{file}: {key} is {max(ids)} and the model has {rows} tokens"
                yield Problem("special_id_beyond", said, "copy the llm_config.json of this model", warning=True)


def _check_count(what: str, tokens: int, ordinary: int, special: int, rows: int) -> Iterator[Problem]:
    if ordinary > rows + special + _MISCOUNT:
        said = f"{what} knows {tokens} tokens and the model has {rows}: it is another model's tokenizer"
        yield Problem("tokenizer_too_big", said, _WRONG_TOKENIZER)
    elif tokens > rows:
        said = f"{what} knows {tokens} tokens and the model has {rows}"
        yield Problem("tokenizer_too_big", said, _WRONG_TOKENIZER, warning=True)
    missing = rows - tokens
    if missing > _UNUSUAL_LEAST and tokens * 2 < rows:
        said = f"{what} knows {tokens} tokens and the model has {rows}: it is another model's tokenizer"
        yield Problem("tokenizer_too_small", said, _WRONG_TOKENIZER)
    elif missing > max(_UNUSUAL_LEAST, rows // _UNUSUAL_PART):
        said = f"{what} knows {tokens} tokens and the model has {rows}, more than models pad"
        yield Problem("tokenizer_too_small", said, _WRONG_TOKENIZER, warning=True)


def _check_words(what: str, tokenizer: MnnTokenizer, config: Mapping[str, Any]) -> Iterator[Problem]:
    template = config.get("jinja")
    if tokenizer.texts is None or not isinstance(template, dict):
        return
    for key in ("bos", "eos"):
        word = template.get(key)
        if isinstance(word, str) and word and word.encode() not in tokenizer.texts:
            said = f"{what} has no token {word!r}, which the chat template takes for {key}"
            yield Problem("special_word_unknown", said, _WRONG_TOKENIZER, warning=True)


def _whole(value: Any) -> bool:
    return type(value) is int
