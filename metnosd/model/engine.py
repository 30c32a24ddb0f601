"""One llama.cpp model and context, on the low-level API. Runs in the child process only.

The high-level `Llama` masks the whole vocabulary before it looks at the best token, has no way to switch the
extra buffer types off (which crash on AMX inside a virtual machine, llama.cpp issue 20824) and tokenises
user text with special tokens. So this module drives decoding itself: the argmax is put to the grammar first,
then the top 40, then the whole vocabulary, which gives the same greedy text as masking first.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from metnosd.model.options import EngineOptions

TOP = 40
"""How many of the best tokens are put to the grammar before the whole vocabulary is."""

TEMPLATES = {"chatml": ("<|im_start|>{role}\n", "<|im_end|>\n")}
"""Chat templates: what stands before and after a turn. Only these are tokenised with special tokens."""

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)], align=True)


class EngineError(Exception):
    """A request that cannot be served; `code` is one of `load`, `grammar`, `context`, `template`, `decode`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Aborted(Exception):
    """The request was cancelled while it was decoded."""


@dataclass(slots=True)
class Generated:
    """What one request gave: text, why it ended (`stop`, `length`) and where the time went in milliseconds."""

    text: str = ""
    finish: str = "stop"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    timings_ms: dict[str, float] = field(default_factory=dict)


WORTH_LOADING = 128
"""From how many tokens on a saved state is read rather than evaluated again."""


def _shared(tokens: Sequence[int], prompt: Sequence[int]) -> int:
    """How many tokens the two begin with in common."""
    shared = 0
    for old, new in zip(tokens, prompt, strict=False):
        if old != new:
            break
        shared += 1
    return shared


class Engine:
    """A loaded model with one context and one sequence. Not safe for threads: one caller at a time."""

    def __init__(self, options: EngineOptions, stopped: Callable[[], bool]) -> None:
        """Load `options.path`; `stopped()` is asked often and ends a running request with `Aborted`."""
        if options.template not in TEMPLATES:
            raise EngineError("template", f"There is no chat template {options.template!r}.")
        self._options = options
        self._stopped = stopped
        self._tokens: list[int] = []
        self._warmed: tuple[Path, list[int]] | None = None
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = options.gpu_layers
        params.use_extra_bufts = options.extra_bufts
        self._model = llama_cpp.llama_model_load_from_file(str(options.path).encode(), params)
        if not self._model:
            raise EngineError("load", f"llama.cpp cannot load {options.path}.")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._context = self._make_context()
        self._pieces: dict[int, bytes] = {}
        self._candidates = np.zeros(self._n_vocab, dtype=_TOKEN_DATA)

    @property
    def can_offload(self) -> bool:
        """Whether this build of llama.cpp can put layers on a GPU."""
        return bool(llama_cpp.llama_supports_gpu_offload())

    def _make_context(self) -> Any:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = self._options.n_ctx
        params.n_batch = self._options.batch
        params.n_threads = self._options.threads
        params.n_threads_batch = self._options.threads
        self._abort = llama_cpp.ggml_abort_callback(lambda _data: self._stopped())
        params.abort_callback = self._abort
        context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            raise EngineError("load", f"llama.cpp cannot make a context of {self._options.n_ctx} tokens.")
        return context

    def tokenize(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The tokens of a chat of (role, text), open for the assistant to continue.

        Only the template is read with special tokens; text that spells `<|im_end|>` stays text.
        """
        before, after = TEMPLATES[self._options.template]
        tokens: list[int] = []
        for role, text in messages:
            tokens += self._encode(before.format(role=role), special=True)
            tokens += self._encode(text, special=False)
            tokens += self._encode(after, special=True)
        return tokens + self._encode(before.format(role="assistant"), special=True)

    def _encode(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        buffer = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self._vocab, data, len(data), buffer, room, False, special)
        if count < 0:
            raise EngineError("context", "The text has more tokens than bytes.")
        return list(buffer[:count])

    def generate(
        self,
        messages: Sequence[tuple[str, str]],
        *,
        grammar: str | None,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> Generated:
        """Continue the chat greedily under `grammar` (GBNF with a rule `root`), at most `max_tokens` long.

        `on_text` gets the text as it comes. Raises `EngineError`, or `Aborted` when stopped; in both cases
        the engine stays usable.
        """
        started = time.monotonic()
        sampler = self._sampler(grammar) if grammar is not None else None
        try:
            prompt = self.tokenize(messages)
            if len(prompt) + max_tokens > self._options.n_ctx:
                room = self._options.n_ctx
                raise EngineError("context", f"{len(prompt)} + {max_tokens} tokens do not fit into {room}.")
            result = Generated(prompt_tokens=len(prompt))
            compiled = time.monotonic()
            result.reused_tokens = self._prefill(prompt, on_progress)
            filled = time.monotonic()
            self._decode_greedily(result, sampler, max_tokens, on_text)
            ended = time.monotonic()
        finally:
            if sampler is not None:
                llama_cpp.llama_sampler_free(sampler)
        result.timings_ms["grammar"] = (compiled - started) * 1000
        result.timings_ms["prefill"] = (filled - compiled) * 1000
        result.timings_ms["decode"] = (ended - filled) * 1000
        return result

    def warm(self, messages: Sequence[tuple[str, str]], folder: Path, on_progress: Callable[[], None]) -> bool:
        """Have the chat evaluated, from its saved KV cache in `folder` if there is one; whether there was.

        The file is keyed by library, model, settings and tokens, so that a stale one is never read; one that
        llama.cpp does not take is made anew. Only the newest is kept.
        """
        prompt = self.tokenize(messages)
        file = folder / f"prefix-{self._key(prompt)}.kv"
        self._warmed = (file, prompt)
        if self._load_state(file, prompt):
            return True
        self._prefill(prompt, on_progress)
        for old in folder.glob("prefix-*.kv"):
            old.unlink(missing_ok=True)
        tokens = (llama_cpp.llama_token * len(prompt))(*prompt)
        partial = file.with_suffix(".part")
        partial.touch(mode=0o600)
        if llama_cpp.llama_state_seq_save_file(self._context, str(partial).encode(), 0, tokens, len(prompt)):
            partial.replace(file)
        else:
            partial.unlink(missing_ok=True)
        return False

    def _key(self, prompt: list[int]) -> str:
        options = self._options
        status = options.path.stat()
        parts = (llama_cpp.__version__, options, status.st_size, status.st_mtime_ns, prompt)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    def _load_state(self, file: Path, prompt: list[int]) -> bool:
        if not file.is_file():
            return False
        self._forget(0)
        tokens = (llama_cpp.llama_token * len(prompt))()
        count = ctypes.c_size_t(0)
        read = llama_cpp.llama_state_seq_load_file(
            self._context, str(file).encode(), 0, tokens, len(prompt), ctypes.byref(count)
        )
        if not read or list(tokens[: count.value]) != prompt:
            self._forget(0)
            return False
        self._tokens = list(prompt)
        return True

    def _sampler(self, grammar: str) -> Any:
        if not grammar.strip():
            # llama.cpp takes an empty grammar, and then constrains nothing.
            raise EngineError("grammar", "The grammar is empty.")
        sampler = llama_cpp.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        if not sampler:
            raise EngineError("grammar", "llama.cpp does not accept the grammar.")
        return sampler

    def _prefill(self, prompt: list[int], on_progress: Callable[[], None] | None) -> int:
        """Evaluate what of `prompt` is not in the KV cache yet; the number of tokens that were."""
        shared = _shared(self._tokens, prompt[:-1])
        if self._warmed is not None and _shared(self._warmed[1], prompt[:-1]) - shared >= WORTH_LOADING:
            # Another chat has taken the place of the warm one in the cache: its state is read, not evaluated again.
            self._load_state(*self._warmed)
            shared = _shared(self._tokens, prompt[:-1])
        self._forget(shared)
        for start in range(shared, len(prompt), self._options.batch):
            self._decode(prompt[start : start + self._options.batch])
            if on_progress is not None:
                on_progress()
        return shared

    def _forget(self, keep: int) -> None:
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_seq_rm(memory, 0, keep, -1)
        del self._tokens[keep:]

    def _decode(self, tokens: list[int]) -> None:
        if self._stopped():
            raise Aborted
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code != 0:
            self._forget(len(self._tokens))
            if code == 2 or self._stopped():
                raise Aborted
            raise EngineError("decode", f"llama.cpp could not evaluate the text (code {code}).")
        self._tokens += tokens

    def _decode_greedily(
        self, result: Generated, sampler: Any, max_tokens: int, on_text: Callable[[str], None] | None
    ) -> None:
        text = bytearray()
        sent = 0
        result.finish = "length"
        while result.tokens < max_tokens:
            token = self._best_token(sampler)
            if token is None or llama_cpp.llama_vocab_is_eog(self._vocab, token):
                result.finish = "stop"
                break
            if sampler is not None:
                llama_cpp.llama_sampler_accept(sampler, token)
            text += self._piece(token)
            result.tokens += 1
            if on_text is not None:
                sent = _send_whole_characters(text, sent, on_text)
            self._decode([token])
        result.text = text.decode("utf-8", "replace")

    def _best_token(self, sampler: Any) -> int | None:
        """The most likely token that the grammar allows, or None where it allows none."""
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        logits = np.ctypeslib.as_array(pointer, shape=(self._n_vocab,))
        best = int(logits.argmax())
        if sampler is None or self._allowed(sampler, np.array([best], dtype=np.int32), logits) is not None:
            return best
        top = np.argpartition(logits, -TOP)[-TOP:].astype(np.int32)
        found = self._allowed(sampler, top, logits)
        if found is not None:
            return found
        return self._allowed(sampler, np.arange(self._n_vocab, dtype=np.int32), logits)

    def _allowed(self, sampler: Any, tokens: npt.NDArray[np.int32], logits: npt.NDArray[np.float32]) -> int | None:
        """The best of `tokens` that the grammar allows now."""
        data = self._candidates[: len(tokens)]
        data["id"] = tokens
        data["logit"] = logits[tokens]
        data["p"] = 0
        array = llama_cpp.llama_token_data_array(
            data=data.ctypes.data_as(llama_cpp.llama_token_data_p),
            size=len(tokens),
            selected=-1,
            sorted=False,
        )
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        best = int(data["logit"].argmax())
        return int(data["id"][best]) if np.isfinite(data["logit"][best]) else None

    def _piece(self, token: int) -> bytes:
        piece = self._pieces.get(token)
        if piece is None:
            buffer = ctypes.create_string_buffer(256)
            length = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, 256, 0, False)
            piece = self._pieces[token] = buffer.raw[: max(length, 0)]
        return piece

    def close(self) -> None:
        """Free the context and the model."""
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)


def _send_whole_characters(text: bytearray, sent: int, on_text: Callable[[str], None]) -> int:
    """Hand on what is whole UTF-8 after the first `sent` bytes; the new count of bytes handed on."""
    end = len(text)
    while end > sent and end > len(text) - 4:
        try:
            piece = text[sent:end].decode("utf-8")
        except UnicodeDecodeError:
            end -= 1
            continue
        on_text(piece)
        return end
    return sent
