"""A tiny GGUF model with one token a byte, and llama.cpp's own grammar engine driven byte by byte.

The vocabulary is a byte-level BPE: the 256 bytes, a few longer pieces that straddle the borders of JSON, and
the special tokens of the ChatML family. So every string can be spelled in single bytes, and what the engine
says about a string does not depend on a tokeniser.
"""

from __future__ import annotations

import ctypes
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_PIECES = ('{"', '":', '",', '"}', "}]", "]}", " t", "th", "in", "er", "  ")
_DIM, _HIDDEN, _LAYERS, _HEADS = 64, 128, 2, 4
_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level BPE, as GPT-2 defined it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for offset, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + offset)
    return [letters[byte] for byte in range(256)]


def _tokens() -> tuple[list[str], list[int], list[str]]:
    letters = byte_letters()
    pieces = ["".join(letters[byte] for byte in piece.encode()) for piece in _PIECES]
    tokens = [*letters, *pieces, *SPECIAL_TOKENS]
    normal, control = 1, 3
    types = [normal] * (256 + len(pieces)) + [control] * len(SPECIAL_TOKENS)
    return tokens, types, [f"{piece[0]} {piece[1]}" for piece in pieces]


def write_tiny_model(path: Path, *, n_ctx: int = 4096, seed: int = 0) -> Path:
    """Write a complete llama-architecture model with random weights to `path` and return `path`.

    Two layers of width 64 in 32-bit floats (about half a megabyte): it loads and decodes in well under a
    second and says nothing sensible. The same seed gives the same bytes. Token ids 0 to 255 are the bytes;
    `<|im_end|>` is the end of sequence, `<|endoftext|>` ends generation as well. `n_ctx` is the context
    length that the file declares.
    """
    import gguf

    tokens, types, merges = _tokens()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-bytes")
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(_DIM)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_DIM // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(_CHATML)
    for name, weights in _weights(len(tokens), seed):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _weights(n_vocab: int, seed: int) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[np.float32]]]]:
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return random.normal(0.0, 1.0 / math.sqrt(columns), (rows, columns)).astype(np.float32)

    ones = np.ones(_DIM, dtype=np.float32)
    yield "token_embd.weight", random.normal(0.0, 1.0, (n_vocab, _DIM)).astype(np.float32)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", ones
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}.{part}.weight", matrix(_DIM, _DIM)
        yield f"{block}.ffn_norm.weight", ones
        yield f"{block}.ffn_gate.weight", matrix(_HIDDEN, _DIM)
        yield f"{block}.ffn_up.weight", matrix(_HIDDEN, _DIM)
        yield f"{block}.ffn_down.weight", matrix(_DIM, _HIDDEN)
    yield "output_norm.weight", ones
    yield "output.weight", matrix(n_vocab, _DIM)


class Grammar:
    """One parsed grammar; close it, or use it as a context manager."""

    def __init__(self, vocab: Any, text: str, end_token: int) -> None:
        import llama_cpp

        self._cpp = llama_cpp
        self._end = end_token
        self._entry = llama_cpp.llama_token_data()
        self._array = llama_cpp.llama_token_data_array(
            data=ctypes.pointer(self._entry), size=1, selected=-1, sorted=False
        )
        self._sampler = llama_cpp.llama_sampler_init_grammar(vocab, text.encode(), b"root")
        if not self._sampler:
            raise ValueError("llama.cpp does not parse this grammar")

    def __enter__(self) -> Grammar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the sampler; closing twice is harmless."""
        if self._sampler:
            self._cpp.llama_sampler_free(self._sampler)
            self._sampler = None

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        self._entry.id, self._entry.logit, self._entry.p = token, 1.0, 0.0
        self._array.size, self._array.selected = 1, -1
        self._cpp.llama_sampler_apply(self._sampler, ctypes.byref(self._array))
        return not math.isinf(self._entry.logit)

    def feed(self, data: bytes) -> int:
        """Accept bytes while the grammar allows them; return how many were accepted."""
        for count, byte in enumerate(data):
            if not self.allows(byte):
                return count
            self._cpp.llama_sampler_accept(self._sampler, byte)
        return len(data)

    def may_end(self) -> bool:
        """Whether generation may end here."""
        return self.allows(self._end)

    def next_bytes(self) -> bytes:
        """The bytes that may come next, ascending (byte 0 never may)."""
        return bytes(byte for byte in range(1, 256) if self.allows(byte))


class GrammarEngine:
    """llama.cpp's grammar engine over the byte vocabulary. Threads must not share one."""

    def __init__(self, model_path: Path) -> None:
        import llama_cpp

        self._cpp = llama_cpp
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        with quiet_llama():
            self._model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), params)
        if not self._model:
            raise ValueError(f"llama.cpp does not load {model_path}")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._end = 256 + len(_PIECES) + SPECIAL_TOKENS.index("<|im_end|>")
        self._log = _silence(llama_cpp)

    @classmethod
    def temporary(cls) -> GrammarEngine:
        """An engine over a model file that is written and removed at once."""
        with tempfile.TemporaryDirectory() as folder:
            return cls(write_tiny_model(Path(folder) / "bytes.gguf"))

    def close(self) -> None:
        """Free the model; grammars of this engine must be closed before."""
        if self._model:
            self._cpp.llama_model_free(self._model)
            self._model = None

    def grammar(self, text: str) -> Grammar:
        """Parse `text`. ValueError when llama.cpp refuses it."""
        return Grammar(self._vocab, text, self._end)

    def parses(self, text: str) -> bool:
        """Whether llama.cpp parses `text`."""
        try:
            self.grammar(text).close()
        except ValueError:
            return False
        return True

    def accepts(self, text: str, candidate: str | bytes) -> bool:
        """Whether the grammar `text` admits exactly `candidate`, to its end."""
        data = candidate.encode() if isinstance(candidate, str) else candidate
        with self.grammar(text) as grammar:
            return grammar.feed(data) == len(data) and grammar.may_end()


def _silence(llama_cpp: Any) -> Any:
    """Stop llama.cpp's log lines; the returned callback has to stay alive."""
    callback = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


@contextmanager
def quiet_llama() -> Iterator[None]:
    """Send what llama.cpp prints to standard error to nowhere while loading."""
    import os

    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
