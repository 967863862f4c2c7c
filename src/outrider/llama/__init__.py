"""The backend over llama.cpp, through llama-cpp-python. Nothing here imports that package before a model is loaded."""

from outrider.llama.devices import Device, devices
from outrider.llama.loading import load
from outrider.llama.model import LlamaModel
from outrider.llama.options import LlamaOptions, draft_options, target_options
from outrider.llama.tokenizer import LlamaTokenizer

__all__ = ["Device", "LlamaModel", "LlamaOptions", "LlamaTokenizer", "devices", "draft_options", "load", "target_options"]
