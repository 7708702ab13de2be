"""mnn-farm: benchmarks MNN language models on Android phones and publishes no number it cannot prove."""

__version__ = "0.1.0"
