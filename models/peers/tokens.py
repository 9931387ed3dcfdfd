"""Ids by Hugging Face's tokenizers, for the tests of package token.

    pip install tokenizers gguf
    python models/peers/tokens.py small models/token/testdata
    RANDFEAT_DATA=... python models/peers/tokens.py all DIR --models MODELS
    RANDFEAT_TOKENS=DIR go test ./token -run TestReference -v

`small` trains small tokenizers of every kind on this project's own texts; they and their ids are committed. `all` takes
the tokenizers of all-MiniLM-L6-v2 (MODELS/minilm) and of SmolLM2 (MODELS/smollm2.gguf), this one with the patterns of
GPT-2, Llama 3 and Qwen2 too; texts are 10,000 lines of WikiText-2, Penn Treebank and Tiny Shakespeare, edge cases, and
every character of Unicode below U+32000, the assigned ones, between two letters.
"""
import argparse, glob, gzip, json, os, random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
EDGES = [
    "", " ", "  ", "\n", "\r\n", "\t\t\t", "a", " a", "  a", "a ", "a  ", "a\n\nb", "a \n \n b", "a\r\n\r\n  b", "   \n",
    "\n   x", "don't DON'T Don'T we'll WE'LL they've I'm I'M you'd 're 'RE 'ſ 'lL 'x ''s", "it's'd''ll",
    "1234567890", "12 345 6789", "3.14159", "1,000,000", "½ Ⅷ ² ٣ ४ 𝟙 ①", "x2y3z", "2024-01-02T03:04:05Z",
    "naïve café résumé Ångström", "nai\u0308ve cafe\u0301", "ÀÉÎÕÜ ß ẞ İ ı Σ ς σ ΑΣ", "ﬁ ﬂ ﬃ", "e\u0301\u0323\u0301",
    "日本語のテキスト", "中文字符 and English", "한국어 텍스트", "𠀀𪛖𫝀𫠠𫢸", "Привет, мир!", "مرحبا بالعالم", "שָׁלוֹם",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "🙂", "👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️", "a\u200bb a\u200db a\u00adb a\ufeffb", "a\u00a0b\u2003c\u3000d\u2028e\u0085f",
    "\u0000a\u0001b\u007fc\u009fd", "\ufffd", "\ue000", "\U0010ffff", "a\u0300", "\u0300a", "...!?;:—–-_()[]{}<>|\\/@#$%^&*+=~`\"'",
    "«quoted» “curly” ‘single’ …", "$€£¥ ±×÷ §¶ ©®™ °", "http://example.com/?q=a+b&c=%20#frag", "foo_bar fooBar FooBAR",
    "x" * 99, "x" * 100, "x" * 101, "x" * 5000, "ab" * 3000, " " * 3000, "\n" * 300, "é" * 300, "🙂" * 200, "1" * 1000,
    "[CLS] a [SEP]", "[MASK]ed", "[mask]", "[UNK][PAD]", "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "<|im_start",
    "a<|im_end|>b", " <|im_end|> ", "<|endoftext|><|endoftext|>", "\u1e9b\u0323", "\u2126 \u212b", "\u0958", "\uac00\u1100\u1161",
]


def edges(n, seed=1):
    """EDGES and n texts of random pieces of them and of random characters."""
    r = random.Random(seed)
    chars = [c for e in EDGES for c in e[:60]] + list(" \n\t'") * 20
    out = list(EDGES)
    for _ in range(n):
        parts = [r.choice(EDGES)[:40] if r.random() < 0.3 else "".join(r.choices(chars, k=r.randint(1, 12))) for _ in range(4)]
        out.append("".join(parts))
    return out


def patterned(pattern, nfc=False):
    def make(t):
        t.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        if nfc:
            t.normalizer = normalizers.NFC()

    return make


def gpt2(t):
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


def digits(t):
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


KINDS = {"gpt2": gpt2, "smollm": digits, "llama3": patterned(LLAMA3), "qwen2": patterned(QWEN2, nfc=True)}
MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def write(folder, name, tok, **sets):
    """The tokenizer, every set of texts (one per line, as JSON), and their ids in a file of the same name."""
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    tok.no_truncation()
    tok.no_padding()
    tok.save(os.path.join(folder, name, "tokenizer.json"), pretty=False)
    for key, texts in sets.items():
        path = os.path.join(folder, key + ".jsonl")
        if not os.path.exists(path):
            with open(path, "w") as f:
                f.writelines(json.dumps(t, ensure_ascii=False) + "\n" for t in texts)
        with open(os.path.join(folder, name, key + ".jsonl"), "w") as f:
            for i in range(0, len(texts), 10000):
                f.writelines(
                    json.dumps(e.ids, separators=(",", ":")) + "\n" for e in tok.encode_batch_fast(texts[i : i + 10000])
                )
        print(name, key, len(texts), "texts", flush=True)


def bert(lower, model=None):
    t = Tokenizer(model or models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    return t


def characters(prepend):
    """BPE of characters with bytes for the others: Gemma's, or with ▁ before a text that of Llama 2."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prepend else replace
    if not prepend:
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return t


def unigram(corpus, rules=None):
    """A model of SentencePiece as conversions of XLM-R are; rules are a small table of characters instead of NFKC."""
    import io, tempfile
    import sentencepiece as spm
    from sentencepiece import sentencepiece_model_pb2 as pb

    out, kind = io.BytesIO(), {"normalization_rule_name": "nmt_nfkc"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        if rules:
            f.write(rules)
            f.flush()
            kind = {"normalization_rule_tsv": f.name}
        lines = [line for text in corpus for line in text.split("\n") if 0 < len(line.encode()) < 4000]
        spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=400 if rules else 8000,
                                       character_coverage=0.995, hard_vocab_limit=False, num_threads=1, **kind)
    p = pb.ModelProto.FromString(out.getvalue())
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(x.piece, x.score) for x in p.pieces[3:]] + [("<mask>", 0.0)]
    t = Tokenizer(models.Unigram(pieces, 3, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(p.normalizer_spec.precompiled_charsmap),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace("▁", prepend_scheme="always")])
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>",
                                                     [("<s>", 0), ("</s>", 2)])
    return t


def small(folder, only=None):
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    corpus = [open(p).read() for p in sorted(glob.glob(os.path.join(here, "docs", "*.md")))]
    texts = [t for t in edges(8) if len(t) < 80]
    corpus += texts
    for name, prepend in {"gemma": False, "llama2": True}.items():
        if only and name not in only:
            continue
        t = characters(prepend)
        special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
        t.train_from_iterator(
            corpus, trainers.BpeTrainer(vocab_size=520, special_tokens=special, limit_alphabet=120, show_progress=False)
        )
        j = json.loads(t.to_str())  # bytes are ordinary tokens, as in the published files
        j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(j))
        t.post_processor = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", 2)])
        write(folder, name, t, texts=texts)
    for name, make in KINDS.items():
        if only and name not in only:
            continue
        t = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
        make(t)
        t.train_from_iterator(
            corpus,
            trainers.BpeTrainer(
                vocab_size=420,
                special_tokens=MARKERS,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        )
        if name == "llama3":
            bos = "<|endoftext|>"
            t.post_processor = processors.TemplateProcessing(f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])
        if name == "gpt2":
            t.add_tokens([AddedToken("foo", single_word=True, lstrip=True, rstrip=True, normalized=False)])
        write(folder, name, t, texts=texts)
    if not only or "unigram" in only:
        write(folder, "unigram", unigram(corpus, "FF21\t41\nFB01\t66 69\n65 301\tE9\n2460\t31\n3000\t20\n9\t20\nA0\t20\n"), texts=texts)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for name, lower in {"bert": True, "cased": False}.items():
        if only and name not in only:
            continue
        t = bert(lower)
        t.train_from_iterator(
            corpus, trainers.WordPieceTrainer(vocab_size=330, special_tokens=special, limit_alphabet=150, show_progress=False)
        )
        ids = [(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")]
        t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ids)
        write(folder, name, t, texts=texts)


def lines():
    out = []
    for name in ("wikitext2/wiki.test.tokens.gz", "ptb/ptb.test.txt.gz", "tinyshakespeare/input.txt.gz"):
        with gzip.open(os.path.join(os.environ["RANDFEAT_DATA"], name), "rt") as f:
            out.append([line for line in f.read().split("\n") if line.strip()])
    each = [out[0][:2800], out[1][:3600], out[2]]
    n = 10000 - sum(len(x) for x in each[:2])
    return sum(each[:2], []) + each[2][:n]


def everything(folder, weights):
    from gguf import GGUFReader

    texts = lines() + edges(3000)
    chars = [f"a{chr(c)}b {chr(c)}" for c in range(0x32000) if not 0xD800 <= c < 0xE000]
    t = Tokenizer.from_file(os.path.join(weights, "minilm", "tokenizer.json"))
    write(folder, "minilm", t, lines=texts, chars=chars)
    write(folder, "unigram", unigram(lines()), lines=texts, chars=chars)
    vocab = os.path.join(weights, "minilm", "vocab.txt")
    t = bert(False, models.WordPiece.from_file(vocab, unk_token="[UNK]"))
    t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    write(folder, "minilm-cased", t, lines=texts, chars=chars)
    fields = GGUFReader(os.path.join(weights, "smollm2.gguf")).fields
    tokens, merges, types = (fields["tokenizer.ggml." + n].contents() for n in ("tokens", "merges", "token_type"))
    for name, make in KINDS.items():
        t = Tokenizer(
            models.BPE(
                {t: i for i, t in enumerate(tokens)},
                [tuple(m.split(" ")) for m in merges],
                ignore_merges=name == "llama3",
            )
        )
        make(t)
        t.add_special_tokens([t for t, k in zip(tokens, types) if k == 3])
        write(folder, name, t, lines=texts, chars=chars)


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("what", choices=["small", "all"])
p.add_argument("folder")
p.add_argument("--only", nargs="*", help="names of small tokenizers; default: all")
p.add_argument("--models", help="folder with minilm/ and smollm2.gguf")
args = p.parse_args()
small(args.folder, args.only) if args.what == "small" else everything(args.folder, args.models)
