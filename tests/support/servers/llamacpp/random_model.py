"""A language model of random weights in llama.cpp's GGUF format: it writes noise.

It has half a megabyte. Runs where ``gguf`` and ``numpy`` are, which is not where the tests run.
"""

from __future__ import annotations

from pathlib import Path

import gguf  # type: ignore[import-not-found]  # of the serving environment
import numpy as np

LAYERS = 2
WIDTH = 64
HEADS = 4
CONTEXT = 16_384
SEED = 0
TEMPLATE = Path(__file__).with_name("chat_template.jinja")
SPECIAL = (b"<unk>", b"<s>", b"</s>")
UNKNOWN, BEGIN, END = range(len(SPECIAL))
ENDING = 1.5
"""How much likelier the end is than any other token: without it a text would go on for hundreds of
tokens.
"""
MARKS = (b"<tool_call>", b"</tool_call>")
"""One token each, as in models that were taught to call tools: a bias on the first makes this one
call them.
"""


def write_model(path: Path) -> None:
    """Write the model; the same bytes every time."""
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer)
    _add_vocabulary(writer)
    _add_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary() -> tuple[list[bytes], list[int]]:
    """Return the tokens and their types.

    There are three special ones, the marks, every byte, and the printable characters.
    """
    # U+2581, the first one, stands for a space.
    printable = [b"\xe2\x96\x81", *(bytes([byte]) for byte in range(ord("!"), 127))]
    parts = [
        (list(SPECIAL[:1]), gguf.TokenType.UNKNOWN),
        (list(SPECIAL[1:]), gguf.TokenType.CONTROL),
        (list(MARKS), gguf.TokenType.USER_DEFINED),
        ([b"<0x%02X>" % byte for byte in range(256)], gguf.TokenType.BYTE),
        (printable, gguf.TokenType.NORMAL),
    ]

    return [token for tokens, _ in parts for token in tokens], [
        kind for tokens, kind in parts for _ in tokens
    ]


def _describe(writer: gguf.GGUFWriter) -> None:
    """Write the model's architecture."""
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)

    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)

    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_chat_template(TEMPLATE.read_text(encoding="utf-8"))


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Write the vocabulary: a SentencePiece tokenizer that merges nothing."""
    tokens, types = vocabulary()
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)

    writer.add_token_scores([0.0] * len(tokens))
    writer.add_vocab_size(len(tokens))
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BEGIN)

    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _add_weights(writer: gguf.GGUFWriter) -> None:
    """Write all matrices, and norms that change nothing."""
    for name, matrix in _matrices().items():
        writer.add_tensor(f"{name}.weight", matrix.astype(np.float32))
    blocks = [f"blk.{layer}.{part}_norm" for layer in range(LAYERS) for part in ("attn", "ffn")]
    for name in ("output_norm", *blocks):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))


def _matrices() -> dict[str, np.ndarray]:
    """Draw every matrix from a normal distribution that keeps the size of what goes through it."""
    dice = np.random.default_rng(SEED)
    size = len(vocabulary()[0])
    square = (WIDTH, WIDTH)
    up = (2 * WIDTH, WIDTH)

    down = (WIDTH, 2 * WIDTH)
    shapes = {"output": (size, WIDTH)}

    for block in (f"blk.{layer}" for layer in range(LAYERS)):
        shapes |= {f"{block}.attn_{part}": square for part in ("q", "k", "v", "output")}
        shapes |= {f"{block}.ffn_gate": up, f"{block}.ffn_up": up, f"{block}.ffn_down": down}

    drawn = {
        name: dice.standard_normal(shape) * shape[-1] ** -0.5 for name, shape in shapes.items()
    }
    embeddings = dice.standard_normal((size, WIDTH))
    # The first channel is on for every token, and speaks for the end alone.
    embeddings[:, 0] = 2.0
    drawn["output"][:, 0] = 0.0

    drawn["output"][END, 0] = ENDING
    return {"token_embd": embeddings, **drawn}
