"""Whether a model fits: how much memory it will take, before anything is loaded.

    needs = engine + weights + max(what loading takes besides, key-value cache + activations)

As an interval, because the engine, its build and the chip decide some of it. For n weights that the file holds in q
bytes, h hidden numbers a token and w in its widest layer, p tokens of prompt that are computed at once (``chunk``
limits them), c tokens in all, K keys and V values cached a token, and f bytes a number (4, and 2 where half precision
may be had: precision ``low`` on ARMv8.2, and GPUs):

=============  ==========================================  ====================================================
part           at least                                    at most
=============  ==========================================  ====================================================
weights        memory ``low``: 0.8 q (scales in half)      1.5 q (scales of half spread, sums of weights beside
                                                           them), and 0.75 n (2 and 3 bits spread to 4)
               else: f n, dequantized as they are loaded   4 n; on a GPU at least 0.8 q
               what is not quantized: 1 its bytes          4 its bytes (half precision in the file, copied)
loading        0                                           memory ``low``: 2.5 bytes, else 5, for each weight of
                                                           the largest layer: it is unpacked beside the others
cache          c (K a + V b), a and b from                 twice, where it has to grow: the old one is freed only
               ``attention_mode``                          when it was copied, and the pool keeps it
activations    p 2 h f                                     p 4 (12 h + 4 w), 16 MiB, a mask of p c where the engine
                                                           makes one, logits of each of p where the graph does
engine         graph + 3 MB                                5 graph + 12 tokenizer + 2 scales + 64 MB, and 256 MB
                                                           for the driver and its programs on a GPU
=============  ==========================================  ====================================================

With ``use_mmap`` the weights lie in a file and with ``kvcache_mmap`` the cache does: the kernel can drop such pages,
so at least nothing is needed for them (it is slow: every token reads all weights). What encoders for pictures and sound
take is only in the upper end; what a draft model for speculative decoding takes is left out. A build without
``MNN_LOW_MEMORY`` holds floats whatever ``memory`` says.

Sources, MNN 3.6.1: ``ConvolutionFloatFactory.cpp`` (memory ``low`` keeps weights quantized, else floats),
``CPUKVCacheManager.cpp`` (the cache grows by 64 tokens beyond what is needed and is copied), ``CPUAttention.cpp``
(``attention_mode % 8``: 1 keys in 8 bits, 2 values too, 3 and 4 in 3 bits, 5 and 6 in 4, where values are in 8 bits
only with flash attention, ``attention_mode // 8``), ``TurboQuant.hpp`` (14 and 18 bytes for 32 numbers),
``Llm::gen_attention_mask`` (a mask for all pairs unless on the CPU with full attention), ``DiskEmbedding`` (rows are
read one by one, scales are held).

Measured on x86-64 with the Python runner (36 MB before it loads), 8 tokens generated, peak RSS in MB:

=============  ==========  ======  =====  =====  ====================
model          precision   prompt  peak   above  estimate
=============  ==========  ======  =====  =====  ====================
tiny-llama     low/low         64   41.1    5.1  3.4 to 82.8
tiny-llama     low/low        512   45.8    9.8  4.0 to 88.6
tiny-llama     high/high       64   42.7    6.7  5.6 to 84.7
tiny-llama     high/high      512   47.7   11.7  6.8 to 90.4
SmolLM2-135M   low/low         64  271.7  235.7  126.6 to 387.4
SmolLM2-135M   low/low        512  271.8  235.8  138.0 to 390.4
SmolLM2-135M   high/high       64  719.2  683.2  545.3 to 769.1
SmolLM2-135M   high/high      512  719.1  683.1  568.0 to 769.1
SmolLM2-135M   low/low       1500  337.2  301.2  163.0 to 487.5
=============  ==========  ======  =====  =====  ====================

and SmolLM2-135M low/low with 64 tokens after 1500 of history 413.8 (164.5 to 568.8), with ``use_mmap`` 273.4, of which
99.3 are anonymous (5.3 to 387.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.payload.model_shape import Interval, ModelShape

MB = 1_000_000
#: Tokens beyond those that are needed by which the cache is made larger.
_CACHE_STEP = 64
#: Part of a phone's memory that a program can get at most: kernel and system server keep some, whatever is killed.
GIVABLE_SHARE = 0.9
#: What a 32-bit process can address, at most: all of 4 GiB on a 64-bit kernel, less on others.
_32_BIT_BYTES = 4 * 1024**3
_32_BIT_ABIS = ("armeabi-v7a", "armeabi", "x86")
#: ``FileLoader`` seeks with ``fseek``, whose place is a ``long``: 32 bits in a 32-bit process.
_32_BIT_FILE_BYTES = 2**31 - 1
#: Bytes of a number in the cache by ``attention_mode % 8``, as (keys, values); ``None``: as the engine computes.
_EIGHT, _THREE, _FOUR = (1.0, 1.3), (14 / 32, 14 / 32), (18 / 32, 18 / 32)
_CACHE_BYTES: dict[int, tuple[tuple[float, float] | None, tuple[float, float] | None]] = {
    1: (_EIGHT, None),
    2: (_EIGHT, _EIGHT),
    3: (_THREE, None),
    4: (_THREE, _THREE),
    5: (_FOUR, None),
    6: (_FOUR, _FOUR),
}
_FLASH = 8


@dataclass(frozen=True)
class Use:
    """How a model will be used; words and keys are MNN's.

    Attributes:
        settings: further keys: ``attention_mode``, ``use_mmap``, ``kvcache_mmap``, ``chunk``.
    """

    backend: str = "cpu"
    precision: str = "low"
    memory: str = "low"
    threads: int = 4
    context_tokens: int = 0
    prompt_tokens: int = 512
    generate_tokens: int = 128
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_config(cls, config: Mapping[str, Any], tokens: int | None = None) -> Use:
        """Return how a model's configuration has it used, for so many tokens of prompt, answer and history together."""
        threads = config.get("thread_num")
        use = cls(
            backend=str(config.get("backend_type", "cpu")),
            precision=str(config.get("precision", "low")),
            memory=str(config.get("memory", "low")),
            threads=threads if type(threads) is int and threads > 0 else 4,
            settings=config,
        )
        if tokens is None:
            return use
        prompt = min(tokens, use.prompt_tokens)
        return replace(use, prompt_tokens=prompt, generate_tokens=0, context_tokens=tokens - prompt)

    @property
    def tokens(self) -> int:
        """Tokens in the cache at the end."""
        return self.context_tokens + self.prompt_tokens + self.generate_tokens

    def asks(self, key: str) -> bool:
        """Whether a setting is switched on."""
        return self.settings.get(key) is True


@dataclass(frozen=True)
class Needs:
    """Memory that a model needs, in bytes, part by part.

    Attributes:
        engine: program, graph and tokenizer.
        weights: as the engine holds them.
        loading: what loading takes besides, for a moment.
        cache: keys and values of the tokens so far.
        activations: what computing a prompt takes.
    """

    engine: Interval
    weights: Interval
    loading: Interval
    cache: Interval
    activations: Interval

    @property
    def total(self) -> Interval:
        """At its peak."""
        working = self.cache + self.activations
        peak = Interval(max(self.loading.low, working.low), max(self.loading.high, working.high))
        return self.engine + self.weights + peak


def needs_of(shape: ModelShape, use: Use) -> Needs:
    """Return how much memory a model of this shape needs when it is used like that."""
    gpu = use.backend != "cpu"
    lean = use.memory == "low"
    least_number = 2 if gpu or use.precision == "low" else 4
    quantized = shape.quantized_bytes
    if lean:
        weights = _interval(0.8 * quantized, max(1.5 * quantized, 0.75 * shape.weights))
    else:
        floats = 0.8 * quantized if gpu else least_number * shape.weights
        weights = _interval(floats, 4 * shape.weights)
    weights += Interval(shape.other_bytes, 4 * shape.other_bytes) + Interval(0, 4 * shape.encoder_bytes)
    if use.asks("use_mmap"):
        weights = Interval(0, weights.high)
    return Needs(
        engine=_engine(shape, gpu=gpu),
        weights=weights,
        loading=_interval(0, (2.5 if lean else 5) * shape.largest_weights),
        cache=_cache(shape, use, least_number),
        activations=_activations(shape, use, least_number),
    )


def _engine(shape: ModelShape, *, gpu: bool) -> Interval:
    driver = 256 * MB if gpu else 0
    return Interval(
        shape.graph_bytes + 3 * MB,
        5 * shape.graph_bytes + 12 * shape.tokenizer_bytes + 2 * shape.scale_bytes + 64 * MB + driver,
    )


def _cache(shape: ModelShape, use: Use, least_number: int) -> Interval:
    mode = use.settings.get("attention_mode", use.settings.get("quant_qkv", _FLASH))
    mode = mode if type(mode) is int and use.backend == "cpu" else _FLASH
    keys, values = _CACHE_BYTES.get(mode % 8, (None, None))
    if values == _EIGHT and mode < _FLASH:
        values = None
    plain = (float(least_number), 4.0)
    low = shape.keys.low * (keys or plain)[0] + shape.values.low * (values or plain)[0]
    high = shape.keys.high * (keys or plain)[1] + shape.values.high * (values or plain)[1]
    grows = 2 if use.context_tokens or use.generate_tokens > _CACHE_STEP else 1
    state = least_number * shape.state_values, 4 * shape.state_values
    least = 0 if use.asks("kvcache_mmap") else use.tokens * low + state[0]
    return _interval(least, grows * (use.tokens + 2 * _CACHE_STEP) * high + state[1])


def _activations(shape: ModelShape, use: Use, least_number: int) -> Interval:
    chunk = use.settings.get("chunk")
    longest = max(use.prompt_tokens, use.context_tokens)
    at_once = min(longest, chunk) if type(chunk) is int and chunk > 0 else longest
    least = 2 * at_once * shape.hidden * least_number
    most = 4 * at_once * (12 * shape.hidden + 4 * shape.widest) + 16 * 1024**2
    pairs = 4 * at_once * use.tokens
    if use.backend != "cpu" or shape.square_mask:
        most += 2 * pairs
    mode = use.settings.get("attention_mode", _FLASH)
    if use.backend != "cpu" or (type(mode) is int and mode < _FLASH):
        most += use.threads * pairs if use.backend == "cpu" else 32 * pairs
    most += 2 * 4 * shape.rows * (at_once if shape.all_logits else 1)
    return _interval(least, most)


def _interval(low: float, high: float) -> Interval:
    return Interval(int(low), int(high))


def cannot_fit(needs: Needs, ram_bytes: int) -> str | None:
    """Return why a model cannot fit into a phone with so much memory, or ``None`` where it may."""
    given = int(GIVABLE_SHARE * ram_bytes)
    if needs.total.low <= given:
        return None
    return (
        f"the model needs at least {amount(needs.total.low)} ({describe(needs)}), and a phone with {amount(ram_bytes)} "
        f"of memory gives a program {amount(given)} at most"
    )


def may_not_fit(needs: Needs, available_bytes: int) -> str | None:
    """Return what speaks against a model fitting into the memory that is available now, or ``None``."""
    if needs.total.low <= available_bytes:
        return None
    return (
        f"the model needs at least {amount(needs.total.low)} ({describe(needs)}) and {amount(available_bytes)} were "
        "available: the phone had to end apps or to swap"
    )


def address_space_limit(abi: str) -> int | None:
    """Return how many bytes a process of an ABI can address, ``None`` where no model meets the limit."""
    return _32_BIT_BYTES if abi in _32_BIT_ABIS else None


def needs_64_bit(shape: ModelShape, use: Use) -> bool:
    """Whether no 32-bit program can hold a model."""
    return cannot_be_addressed(shape, use, _32_BIT_ABIS[0]) is not None


def cannot_be_addressed(shape: ModelShape, use: Use, abi: str) -> str | None:
    """Return why a program of an ABI cannot hold a model, or ``None`` where it may.

    What is mapped from files takes addresses too, so ``use_mmap`` does not help.
    """
    limit = address_space_limit(abi)
    if limit is None:
        return None
    if shape.weight_end > _32_BIT_FILE_BYTES:
        return (
            f"the weight file is read up to byte {shape.weight_end}, and a 32-bit program ({abi}) can seek to byte "
            f"{_32_BIT_FILE_BYTES} at most: take a 64-bit bundle, or a smaller model"
        )
    mapped = {key: value for key, value in use.settings.items() if key not in ("use_mmap", "kvcache_mmap")}
    total = needs_of(shape, replace(use, settings=mapped)).total.low
    if total <= limit:
        return None
    return (
        f"the model needs at least {amount(total)} and a 32-bit program ({abi}) can address {amount(limit)}: take a "
        "64-bit bundle, or a smaller model"
    )


#: What helps a model that does not fit.
WAYS_OUT = (
    "take a smaller model or fewer bits a weight, memory low, a shorter prompt or history, attention_mode = 10 (keys "
    "and values in 8 bits), or use_mmap = true (weights in a file; slow where they do not fit)"
)


def describe(needs: Needs) -> str:
    """Return the parts that a phone must give at least, in words."""
    parts = {"weights": needs.weights, "key-value cache": needs.cache, "the rest": needs.engine + needs.activations}
    return ", ".join(f"{name} {amount(part.low)}" for name, part in parts.items())


def amount(size: int) -> str:
    """Return a size for people."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
