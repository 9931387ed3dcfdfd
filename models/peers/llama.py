"""Tokens per second of llama.cpp, through llama-cpp-python, for the cases of `go test ./decoder -bench`.

    pip install llama-cpp-python
    python peers/llama.py FILE.gguf [--threads 2] [--long 8192] [--greedy N --ids 1,2,3] [--loss --ids 1,2,3]

Prints one JSON object per case. --greedy prints the N most likely next tokens after the ids instead.
"""
import argparse, json, statistics, time

import numpy as np
import llama_cpp


def make(args, context):
    return llama_cpp.Llama(args.file, n_ctx=context, n_threads=args.threads, n_threads_batch=args.read_threads or args.threads,
                           n_batch=512, n_ubatch=512, verbose=False, logits_all=args.loss,
                           flash_attn=args.flash)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--read-threads", type=int, default=0)
    p.add_argument("--long", default="", help="also decode after so many tokens, or so many, such as 8192,16000")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--greedy", type=int, default=0)
    p.add_argument("--ids", default="")
    p.add_argument("--loss", action="store_true", help="print the mean loss of the ids but the first")
    p.add_argument("--short", action="store_true")
    p.add_argument("--only", action="store_true")
    p.add_argument("--flash", action="store_true", help="llama.cpp's flash attention")
    args = p.parse_args()
    if args.greedy:
        llm = make(args, 2048)
        ids = [int(i) for i in args.ids.split(",")]
        llm.eval(ids)
        out = []
        for _ in range(args.greedy):
            n = int(np.argmax(np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llm.ctx, -1), (llm.n_vocab(),))))
            out.append(n)
            llm.eval([n])
        print(json.dumps(out))
        return
    if args.loss:
        ids = [int(i) for i in args.ids.split(",")]
        llm = make(args, len(ids) + 8)
        llm.eval(ids)
        logits = llm.scores[: len(ids) - 1].astype(np.float64)
        top = logits.max(1, keepdims=True)
        log_sum = top[:, 0] + np.log(np.exp(logits - top).sum(1))
        print((log_sum - logits[np.arange(len(ids) - 1), ids[1:]]).mean())
        return
    vocab = 49152
    ids = [100 + i * 7919 % (vocab - 200) for i in range(1024)]

    def report(task, n, tokens, run):
        rates, per_cpu = [], []
        for _ in range(args.repeat):
            start, before = time.perf_counter(), time.process_time()
            run()
            rates.append(tokens / (time.perf_counter() - start))
            per_cpu.append(tokens / (time.process_time() - before))
        print(json.dumps({"model": "llama.cpp", "task": task, "tokens": n, "tokens_s": statistics.median(rates),
                          "tokens_cpu_s": statistics.median(per_cpu)}), flush=True)

    def read(n):
        llm.reset()
        llm.eval(ids[:n])

    def decode():
        for i in range(32):
            llm.eval([ids[i]])

    long = [int(n) for n in args.long.split(",") if n]
    llm = make(args, max([2048] + [n + 256 for n in long]))
    for n in () if args.only else (256,) if args.short else (256, 1024):
        report("prefill", n, n, lambda: read(n))
    llm.reset()
    for n in ([] if args.only else [16, 1024]) + long:
        while llm.n_tokens < n:
            llm.eval(ids[: min(1024, n - llm.n_tokens)])
        report("decode", n, 32, decode)


main()
