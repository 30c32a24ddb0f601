"""The engine under the tests: it refuses what it must, and what may crash it runs in a child process only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.gguf_vocab import SPECIAL_TOKENS, GrammarEngine, quiet_llama, write_tiny_model

REFUSED = {
    "no root": 'start ::= "x"\n',
    "undefined rule": "root ::= nothing\n",
    "left recursion": 'root ::= root "x" | "x"\n',
    "huge repetition": 'root ::= "x"{2001}\n',
    "huge product": 'root ::= ("x"{0,50}){0,50}\n',
    "underscore": 'root ::= a_b\na_b ::= "x"\n',
    "newline in a rule": 'root ::=\n "x"\n | \n "y"\n "z" ::\n',
    "open literal": 'root ::= "x\n',
}
DEEP = "root ::= " + "(" * 200_000 + '"x"' + ")" * 200_000 + "\n"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from support.gguf_vocab import GrammarEngine
engine = GrammarEngine.temporary()
print("loaded", flush=True)
print(engine.parses(sys.stdin.read()), flush=True)
"""
SUPPORT = str(Path(__file__).resolve().parents[1])


def in_child(grammar: str) -> subprocess.CompletedProcess[str]:
    """Parse a grammar in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, SUPPORT], input=grammar, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", REFUSED)
def test_nasty_grammars_are_refused_in_a_child(name: str) -> None:
    """llama.cpp refuses these; should one crash it, then only the child."""
    child = in_child(REFUSED[name])
    assert child.stdout.splitlines()[:1] == ["loaded"]
    assert child.returncode < 0 or child.stdout.splitlines()[1:] == ["False"]


def test_deep_parentheses_kill_only_the_child() -> None:
    """Nesting that overflows the parser's stack ends the child; this process goes on."""
    child = in_child(DEEP)
    assert child.stdout.splitlines()[:1] == ["loaded"]
    assert child.returncode != 0 or child.stdout.splitlines()[1:] in (["True"], ["False"])


def test_the_engine_answers_byte_by_byte(engine: GrammarEngine) -> None:
    """What may come next, and whether it may end; a token that is not allowed is never accepted."""
    with engine.grammar('root ::= "a" [bé] "c"?\n') as grammar:
        assert grammar.next_bytes() == b"a"
        assert grammar.feed(b"ax") == 1
        assert grammar.next_bytes() == b"b\xc3"
        assert not grammar.may_end()
        assert grammar.feed("é".encode()) == 2
        assert grammar.may_end()
        assert grammar.next_bytes() == b"c"
    assert not engine.accepts('root ::= "ab"\n', "a")
    assert not engine.accepts('root ::= "ab"\n', "abc")


def test_the_tiny_model_is_reproducible(tmp_path: Path) -> None:
    """The same seed gives the same file, another seed another."""
    files = [write_tiny_model(tmp_path / f"{n}.gguf", seed=seed) for n, seed in enumerate((0, 0, 1))]
    first, second, third = (path.read_bytes() for path in files)
    assert first == second
    assert first != third
    assert len(first) < 1_000_000


def test_the_tiny_model_decodes(tmp_path: Path) -> None:
    """llama.cpp loads it, splits special tokens off, and computes finite logits."""
    import llama_cpp
    import numpy as np

    params = llama_cpp.llama_model_default_params()
    params.use_extra_bufts = False
    path = write_tiny_model(tmp_path / "tiny.gguf", n_ctx=256)
    with quiet_llama():
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        context = llama_cpp.llama_init_from_model(model, llama_cpp.llama_context_default_params())
    assert model and context
    vocab = llama_cpp.llama_model_get_vocab(model)
    prompt = '<|im_start|>user\nciao è {"a":1}<|im_end|>'.encode()
    tokens = (llama_cpp.llama_token * 64)()
    count = llama_cpp.llama_tokenize(vocab, prompt, len(prompt), tokens, 64, False, True)
    size = llama_cpp.llama_vocab_n_tokens(vocab)
    start, end = (size - len(SPECIAL_TOKENS) + SPECIAL_TOKENS.index(t) for t in ("<|im_start|>", "<|im_end|>"))
    assert (tokens[0], tokens[count - 1]) == (start, end)
    assert llama_cpp.llama_vocab_is_eog(vocab, end)
    assert not llama_cpp.llama_vocab_is_eog(vocab, start)
    assert llama_cpp.llama_model_n_ctx_train(model) == 256
    assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count)) == 0
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), shape=(size,))
    assert np.isfinite(logits).all()
    assert logits.std() > 0.1
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
