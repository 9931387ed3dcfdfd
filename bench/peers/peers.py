"""The peers of the benchmark: one process, one command per line on stdin, one JSON answer per line on stdout.

  {"op": "about"}                              versions, BLAS, core type, threads
  {"op": "setup", "case": NAME, "files": {...}} loads arrays (npy) and prepares the case; answers {"peers": [...]}
  {"op": "run", "peer": NAME}                   runs the peer once; answers {"seconds": s, "sample": [...]}

The sample is a few entries of the result, for the caller to compare with its own.
"""

import json
import os
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")

try:
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.set_grad_enabled(False)
except ImportError:  # the torch rows are then left out
    torch = None


def sample(a):
    """Entries spread over the result, in float64."""
    a = np.asarray(a)
    r = a.reshape(-1, a.shape[-1])
    return [float(r[i, j]) for i in (0, r.shape[0] // 2, r.shape[0] - 1) for j in (0, r.shape[1] // 2, r.shape[1] - 1)]


def about():
    import sklearn

    blas = []
    try:
        import threadpoolctl

        blas = [
            {k: p.get(k) for k in ("internal_api", "version", "architecture", "num_threads")}
            for p in threadpoolctl.threadpool_info()
        ]
    except ImportError:
        pass
    return {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "sklearn": sklearn.__version__,
        "torch": torch.__version__ if torch else None,
        "blas": blas,
    }


def product(f):
    x, w = f["x"], f["w"]
    out = np.empty((x.shape[0], w.shape[0]), x.dtype)
    wt = w.T

    def numpy_matmul():
        np.matmul(x, wt, out=out)
        return out

    peers = {"NumPy matmul": numpy_matmul}
    if torch:
        tx, tw, to = torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(out.copy())

        def torch_matmul():
            torch.mm(tx, tw.T, out=to)
            return to.numpy()

        peers["PyTorch mm"] = torch_matmul
    return peers


def positive(f):
    """exp(w.x - |x|^2/2)/sqrt(m): the plain softmax features."""
    x, w = f["x"], f["w"]
    m = x.dtype.type(w.shape[0] ** -0.5)
    half = x.dtype.type(0.5)
    wt = w.T

    def numpy_naive():
        return m * np.exp(x @ wt - half * np.sum(x * x, axis=1, keepdims=True))

    out = np.empty((x.shape[0], w.shape[0]), x.dtype)

    def numpy_reused():
        np.matmul(x, wt, out=out)
        np.subtract(out, half * np.einsum("ij,ij->i", x, x)[:, None], out=out)
        np.exp(out, out=out)
        np.multiply(out, m, out=out)
        return out

    peers = {"NumPy": numpy_naive, "NumPy, reused output": numpy_reused}
    if torch:
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)

        def fn(a, b):
            return float(m) * torch.exp(a @ b.T - 0.5 * (a * a).sum(1, keepdim=True))

        peers["PyTorch eager"] = lambda: fn(tx, tw).numpy()
        if f.get("compile"):
            compiled = torch.compile(fn)
            peers["PyTorch compile"] = lambda: compiled(tx, tw).numpy()
    return peers


def trig(f):
    """RBFSampler with our projections and zero offsets: sqrt(2/m) cos(w.x)."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    x, w = f["x"], f["w"]
    s = RBFSampler(gamma=0.5, n_components=w.shape[0], random_state=0).fit(x[:10])
    s.random_weights_ = np.ascontiguousarray(w.T)
    s.random_offset_ = np.zeros(w.shape[0], x.dtype)
    peers = {"scikit-learn RBFSampler": lambda: s.transform(x)}
    wt = w.T

    def numpy_sincos():
        t = x @ wt
        return np.concatenate([np.sin(t), np.cos(t)], axis=1) * x.dtype.type(w.shape[0] ** -0.5)

    peers["NumPy sin and cos"] = numpy_sincos
    if torch:
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)

        def fn(a, b):
            t = a @ b.T
            return torch.cat([torch.sin(t), torch.cos(t)], 1) * (b.shape[0] ** -0.5)

        peers["PyTorch eager sin and cos"] = lambda: fn(tx, tw).numpy()
        if f.get("compile"):
            compiled = torch.compile(fn)
            peers["PyTorch compile sin and cos"] = lambda: compiled(tx, tw).numpy()
    n = Nystroem(gamma=0.5, n_components=min(w.shape[0], 1024), random_state=0).fit(x[:2048])
    peers["scikit-learn Nystroem"] = lambda: n.transform(x)
    return peers


def predict(f):
    """RBFSampler + Ridge: transform and predict."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    x, w, beta = f["x"], f["w"], f["beta"]
    s = RBFSampler(gamma=0.5, n_components=w.shape[0], random_state=0).fit(x[:10])
    s.random_weights_ = np.ascontiguousarray(w.T)
    s.random_offset_ = np.zeros(w.shape[0], x.dtype)
    r = Ridge().fit(s.transform(x[:100]), x[:100, :1])
    r.coef_, r.intercept_ = np.ascontiguousarray(beta.T), np.zeros(1, x.dtype)
    pipe = make_pipeline(s, r)
    return {"scikit-learn RBFSampler + Ridge": lambda: pipe.predict(x)}


def elementwise(f):
    x = f["x"]
    out, out2 = np.empty_like(x), np.empty_like(x)

    def numpy_exp():
        np.exp(x, out=out)
        return out

    def numpy_sincos():
        np.sin(x, out=out)
        np.cos(x, out=out2)
        return out

    return {"NumPy exp": numpy_exp, "NumPy sin and cos": numpy_sincos}


def attention(f):
    """Linear attention with positive features: phi(Q) (phi(K)^T [V, 1])."""
    q, k, v, w = f["q"], f["k"], f["v"], f["w"]
    m = q.dtype.type(w.shape[0] ** -0.5)
    half = q.dtype.type(0.5)
    v1 = np.concatenate([v, np.ones((v.shape[0], 1), v.dtype)], axis=1)

    def phi(a):
        return m * np.exp(a @ w.T - half * np.sum(a * a, axis=1, keepdims=True))

    def naive():
        o = phi(q) @ (phi(k).T @ v1)
        return o[:, :-1] / o[:, -1:]

    def blocked():
        s = np.zeros((w.shape[0], v1.shape[1]), q.dtype)
        for i in range(0, k.shape[0], 1024):
            s += phi(k[i : i + 1024]).T @ v1[i : i + 1024]
        out = np.empty_like(v)
        for i in range(0, q.shape[0], 1024):
            o = phi(q[i : i + 1024]) @ s
            np.divide(o[:, :-1], o[:, -1:], out=out[i : i + 1024])
        return out

    fk = np.ascontiguousarray(phi(k))
    fq = np.ascontiguousarray(phi(q))
    buf = np.empty_like(fk)

    def products():
        np.matmul(k, w.T, out=buf)
        s = fk.T @ v1
        np.matmul(q, w.T, out=buf)
        o = fq @ s
        return o[:, :-1] / o[:, -1:]

    peers = {"NumPy naive": naive, "NumPy blocked": blocked, "NumPy, the four products alone": products}
    if torch:
        tq, tk, tv, tw = (torch.from_numpy(a) for a in (q, k, v, w))

        def tphi(a):
            return float(m) * torch.exp(a @ tw.T - 0.5 * (a * a).sum(1, keepdim=True))

        def fn(a, b, c):
            one = torch.ones(c.shape[0], 1, dtype=c.dtype)
            o = tphi(a) @ (tphi(b).T @ torch.cat([c, one], 1))
            return o[:, :-1] / o[:, -1:]

        peers["PyTorch eager"] = lambda: fn(tq, tk, tv).numpy()
        if f.get("compile"):
            compiled = torch.compile(fn)
            peers["PyTorch compile"] = lambda: compiled(tq, tk, tv).numpy()
    return peers


CASES = {
    "product": product,
    "positive": positive,
    "trig": trig,
    "predict": predict,
    "elementwise": elementwise,
    "attention": attention,
}


def main():
    peers = {}
    for line in sys.stdin:
        req = json.loads(line)
        try:
            if req["op"] == "about":
                answer = about()
            elif req["op"] == "setup":
                files = {k: np.load(v) for k, v in req["files"].items()}
                files["compile"] = req.get("compile", False)
                peers = CASES[req["case"]](files)
                answer = {"peers": list(peers)}
            else:
                fn = peers[req["peer"]]
                start = time.perf_counter()
                out = fn()
                seconds = time.perf_counter() - start
                answer = {"seconds": seconds, "sample": sample(out)}
        except Exception as e:  # a peer that fails is reported, not fatal
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
