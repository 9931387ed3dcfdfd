"""Tokens per second of PyTorch and onnxruntime for the cases of `go test ./encoder -bench`, and reference embeddings.

    pip install torch transformers onnx onnxruntime
    python peers/minilm.py FOLDER [--threads 2] [--reference FILE]
"""
import argparse, json, os, statistics, tempfile, time

import torch
from transformers import AutoModel


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--reference")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    m = AutoModel.from_pretrained(args.folder, attn_implementation="sdpa").eval()
    if args.reference:
        out = []
        for n in (5, 40, 300):
            seq = [101] + [1000 + i * 7919 % 20000 for i in range(n - 2)] + [102]
            mean = m(torch.tensor([seq])).last_hidden_state[0].mean(0)
            out.append({"ids": seq, "mean": [float(f"{v:.7g}") for v in (mean / mean.norm()).tolist()]})
        json.dump(out, open(args.reference, "w"))
        return

    def batch(n):
        return torch.tensor([[1000 + (i * n + j) * 7919 % 20000 for j in range(n)] for i in range(2048 // n)])

    def time_of(name, n, run):
        run()
        rates, per_cpu = [], []
        for _ in range(args.repeat):
            start, before = time.perf_counter(), time.process_time()
            run()
            rates.append(2048 / (time.perf_counter() - start))
            per_cpu.append(2048 / (time.process_time() - before))
        print(json.dumps({"model": name, "task": "embed", "tokens": n, "tokens_s": statistics.median(rates),
                          "tokens_cpu_s": statistics.median(per_cpu)}), flush=True)

    for n in (128, 512):
        x = batch(n)
        time_of("torch " + torch.__version__, n, lambda: m(x).last_hidden_state.mean(1))
    try:
        import onnxruntime as ort
    except ImportError:
        return
    path = os.path.join(tempfile.gettempdir(), "minilm-bench.onnx")
    if not os.path.exists(path):
        class Wrap(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.m = AutoModel.from_pretrained(args.folder, attn_implementation="eager").eval()

            def forward(self, x):
                return self.m(x, attention_mask=torch.ones_like(x)).last_hidden_state.mean(1)

        torch.onnx.export(Wrap(), (batch(128),), path, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "b", 1: "n"}}, opset_version=17, dynamo=False)
    o = ort.SessionOptions()
    o.intra_op_num_threads = args.threads
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    for n in (128, 512):
        x = batch(n).numpy()
        time_of("onnxruntime " + ort.__version__, n, lambda: s.run(None, {"x": x}))


main()
