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
    """Entries spread over the result, or over each of several, in float64."""
    if a is None:
        return None
    if isinstance(a, tuple):
        return [s for part in a for s in sample(part)]
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
    try:
        from importlib.metadata import version

        performer = version("performer-pytorch")
    except Exception:
        performer = None
    return {
        "performer": performer,
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


def sums(f):
    a, b = f["a"], f["b"]
    out = np.empty((a.shape[1], b.shape[1]), a.dtype)
    if np.array_equal(a[0], b[0]):  # numpy then computes half of it (syrk)
        b = a

    def numpy_matmul():
        np.matmul(a.T, b, out=out)
        return out

    peers = {"NumPy matmul": numpy_matmul}
    if torch:
        ta, tb, to = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(out.copy())

        def torch_matmul():
            torch.mm(ta.T, tb, out=to)
            return to.numpy()

        peers["PyTorch mm"] = torch_matmul
    return peers


def ready(f):
    """Ridge alone; samples are predictions."""
    from sklearn.linear_model import Ridge

    phi, y, new = f["phi"], f["y"].ravel(), f["new"]
    model = Ridge(alpha=1.0, solver="cholesky")
    return {"scikit-learn Ridge(cholesky)": (lambda: model.fit(phi, y), lambda: model.predict(new).reshape(-1, 1))}


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
    """RBFSampler with zero offsets and given projections, sqrt(2/m) cos(w.x); sine and cosine of our projections."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    x, w, ws = f["x"], f["w"], f["sampler"]
    c = ws.shape[0]
    s = RBFSampler(gamma=0.5, n_components=c, random_state=0).fit(x[:10])
    s.random_weights_ = np.ascontiguousarray(ws.T)
    s.random_offset_ = np.zeros(c, x.dtype)
    peers = {f"scikit-learn RBFSampler ({c} features)": lambda: s.transform(x)}
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
    n = Nystroem(gamma=0.5, n_components=c, random_state=0).fit(x[:2048])
    peers[f"scikit-learn Nystroem ({c} features)"] = lambda: n.transform(x)
    return peers


def our_sampler(w, dtype):
    """RBFSampler with every projection twice, at offsets -pi/2 and 0: cos(t - pi/2) = sin(t), so the features are ours."""
    from sklearn.kernel_approximation import RBFSampler

    class Given(RBFSampler):
        def fit(self, X, y=None):
            super().fit(X, y)
            self.random_weights_ = np.ascontiguousarray(np.concatenate([w, w]).T.astype(dtype))
            self.random_offset_ = np.repeat(np.array([-np.pi / 2, 0.0], dtype), w.shape[0])
            return self

    return Given(gamma=0.5, n_components=2 * w.shape[0], random_state=0)


def predict(f):
    """RBFSampler + a linear model: transform and predict."""
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline

    x, w, beta = f["x"], f["w"], f["beta"]
    s = our_sampler(w, x.dtype).fit(x[:10])
    phi, classes = s.transform(x[:100]), np.arange(100) % 2
    peers = {}
    for model in Ridge(), RidgeClassifier(), LogisticRegression(max_iter=5):
        model.fit(phi, x[:100, :1] if isinstance(model, Ridge) else classes)
        model.coef_, model.intercept_ = np.ascontiguousarray(beta.T), np.zeros(1, x.dtype)
        pipe = make_pipeline(s, model)
        peers[f"scikit-learn RBFSampler + {type(model).__name__}"] = lambda p=pipe: p.predict(x)
    ridge = peers["scikit-learn RBFSampler + Ridge"]
    # Classes are no numbers of ours: their rows answer with the scores of the ridge, computed outside the time.
    return {k: v if v is ridge else (v, lambda: ridge()) for k, v in peers.items()}


def ridge(f):
    """RBFSampler + Ridge: fit, with our features; then Ridge alone on features that are there already. Samples are predictions."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    x, y, w, new = f["x"], f["y"].ravel(), f["w"], f["new"]
    model = dict(alpha=1.0, solver="cholesky")
    s = our_sampler(w, x.dtype)
    pipe = make_pipeline(s, Ridge(**model))
    x32, y32, new32 = x.astype(np.float32), y.astype(np.float32), new.astype(np.float32)
    pipe32 = make_pipeline(our_sampler(w, np.float32), Ridge(**model))
    phi, phi_new = s.fit(x[:10]).transform(x), s.transform(new)
    alone = Ridge(**model)

    def column(a):
        return a.reshape(-1, 1)

    peers = {
        "scikit-learn RBFSampler + Ridge(cholesky)": (lambda: pipe.fit(x, y), lambda: column(pipe.predict(new))),
        "scikit-learn RBFSampler + Ridge(cholesky), float32": (lambda: pipe32.fit(x32, y32), lambda: column(pipe32.predict(new32))),
        "scikit-learn Ridge(cholesky) on ready features": (lambda: alone.fit(phi, y), lambda: column(alone.predict(phi_new))),
    }
    landmarks = make_pipeline(Nystroem(gamma=0.5, n_components=1024, random_state=0), Ridge(**model))
    peers["scikit-learn Nystroem (1024 landmarks) + Ridge(cholesky)"] = (lambda: landmarks.fit(x, y), lambda: None)
    return peers


def csv(f):
    path = f["path"]
    peers = {"NumPy loadtxt": lambda: np.loadtxt(path, delimiter=",", skiprows=1)}
    try:
        import pandas

        peers["pandas read_csv"] = lambda: pandas.read_csv(path).to_numpy()
    except ImportError:
        pass
    return peers


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


def scaled(f):
    """q, k, v, and the projections with the scale d^-1/4 of attention in them; the half of |x|^2 gets d^-1/2."""
    q, k, v, w = f["q"], f["k"], f["v"], f["w"]
    d = q.shape[1]
    return q, k, v, (w * d**-0.25).astype(q.dtype), q.dtype.type(0.5 * d**-0.5)


def attention(f):
    """Linear attention with positive features: phi(Q) (phi(K)^T [V, 1])."""
    q, k, v, w, half = scaled(f)
    m = q.dtype.type(w.shape[0] ** -0.5)
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
        plain, stable = performer(tw, float(half), False), performer(tw, float(half), True)
        peers["PyTorch eager"] = lambda: plain(tq, tk, tv).numpy()
        peers["PyTorch eager, stabilised"] = lambda: stable(tq, tk, tv).numpy()
        if f.get("compile"):
            fast, fast_stable = torch.compile(plain), torch.compile(stable)
            peers["PyTorch compile"] = lambda: fast(tq, tk, tv).numpy()
            peers["PyTorch compile, stabilised"] = lambda: fast_stable(tq, tk, tv).numpy()
        peers.update(performer_pytorch(f, causal=False))
    return peers


def performer(w, half, stabilised):
    """A plain performer: without a stabiliser, which overflows for large inputs, or with the usual one of FAVOR+ (maximum of
    each query, maximum of all keys)."""

    def phi(a, dims):
        e = a @ w.T
        if stabilised:
            e = e - e.amax(dims, keepdim=True)
        return torch.exp(e - half * (a * a).sum(1, keepdim=True))

    def fn(a, b, c):
        one = torch.ones(c.shape[0], 1, dtype=c.dtype)
        o = phi(a, (1,)) @ (phi(b, (0, 1)).T @ torch.cat([c, one], 1))
        return o[:, :-1] / o[:, -1:]

    return fn


def performer_pytorch(f, causal):
    """The package's own FastAttention with our projections. Its causal path without CUDA is the one it calls inefficient."""
    try:
        from performer_pytorch.performer_pytorch import FastAttention
    except ImportError as e:
        return {"performer-pytorch": raising(e)}
    import contextlib
    import io

    q, k, v, w = (torch.from_numpy(f[n]) for n in ("q", "k", "v", "w"))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has no CUDA code
        layer = FastAttention(dim_heads=q.shape[1], nb_features=w.shape[0], causal=causal).eval()
    layer.projection_matrix.copy_(w)
    q, k, v = (a[None, None] for a in (q, k, v))
    return {"performer-pytorch": lambda: layer(q, k, v)[0, 0].numpy()}


def raising(e):
    def fn():
        raise e

    return fn


def attention_causal(f):
    """Causal linear attention in chunks: prefix state and a masked triangle."""
    q, k, v, w, half = scaled(f)
    size = 256

    def phi(a):
        return np.exp(a @ w.T - half * np.sum(a * a, axis=1, keepdims=True))

    def chunked():
        v1 = np.concatenate([v, np.ones((v.shape[0], 1), v.dtype)], axis=1)
        s = np.zeros((w.shape[0], v1.shape[1]), q.dtype)
        out = np.empty_like(v)
        for i in range(0, q.shape[0], size):
            fq, fk, vc = phi(q[i : i + size]), phi(k[i : i + size]), v1[i : i + size]
            o = fq @ s + np.tril(fq @ fk.T) @ vc
            s += fk.T @ vc
            np.divide(o[:, :-1], o[:, -1:], out=out[i : i + size])
        return out

    peers = {"NumPy chunked": chunked}
    if torch:
        tq, tk, tv, tw = (torch.from_numpy(a) for a in (q, k, v, w))
        h = float(half)

        def tphi(a):
            return torch.exp(a @ tw.T - h * (a * a).sum(1, keepdim=True))

        def fn():
            v1 = torch.cat([tv, torch.ones(tv.shape[0], 1, dtype=tv.dtype)], 1)
            s = torch.zeros(tw.shape[0], v1.shape[1], dtype=tq.dtype)
            out = torch.empty_like(tv)
            for i in range(0, tq.shape[0], size):
                fq, fk, vc = tphi(tq[i : i + size]), tphi(tk[i : i + size]), v1[i : i + size]
                o = fq @ s + torch.tril(fq @ fk.T) @ vc
                s += fk.T @ vc
                out[i : i + size] = o[:, :-1] / o[:, -1:]
            return out.numpy()

        peers["PyTorch eager, chunked"] = fn
        peers.update(performer_pytorch(f, causal=True))
    return peers


def attention_backward(f):
    """Forward and backward of the plain performer by autograd."""
    if not torch:
        return {}
    q, k, v, w, half = scaled(f)
    tw, dout = torch.from_numpy(w), torch.from_numpy(f["dout"])
    return {
        "PyTorch eager, forward and backward": gradients(performer(tw, float(half), False), q, k, v, dout),
        "PyTorch eager, stabilised, forward and backward": gradients(performer(tw, float(half), True), q, k, v, dout),
    }


def gradients(fn, q, k, v, dout):
    """fn forward, then the gradients of sum(dout*out)."""
    leaves = tuple(torch.from_numpy(a).requires_grad_() for a in (q, k, v))

    def run():
        with torch.enable_grad():
            return tuple(g.numpy() for g in torch.autograd.grad(fn(*leaves), leaves, dout))

    return run


def sdpa(causal):
    from torch.nn.functional import scaled_dot_product_attention

    def fn(q, k, v):
        return scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], is_causal=causal)[0, 0]

    return fn


SDPA = "PyTorch scaled_dot_product_attention"


def exact(f, causal=False):
    if not torch:
        return {}
    q, k, v = (torch.from_numpy(f[n]) for n in ("q", "k", "v"))
    fn = sdpa(causal)
    return {SDPA: lambda: fn(q, k, v).numpy()}


def exact_backward(f):
    if not torch:
        return {}
    return {SDPA + ", forward and backward": gradients(sdpa(False), f["q"], f["k"], f["v"], torch.from_numpy(f["dout"]))}


CASES = {
    "product": product,
    "positive": positive,
    "trig": trig,
    "predict": predict,
    "ridge": ridge,
    "sums": sums,
    "ready": ready,
    "csv": csv,
    "elementwise": elementwise,
    "attention": attention,
    "attention_causal": attention_causal,
    "attention_backward": attention_backward,
    "exact": exact,
    "exact_causal": lambda f: exact(f, causal=True),
    "exact_backward": exact_backward,
}


def main():
    peers = {}
    for line in sys.stdin:
        req = json.loads(line)
        try:
            if req["op"] == "about":
                answer = about()
            elif req["op"] == "setup":
                files = {k: np.load(v) if v.endswith(".npy") else v for k, v in req["files"].items()}
                files["compile"] = req.get("compile", False)
                peers = CASES[req["case"]](files)
                answer = {"peers": list(peers)}
            else:
                fn = peers[req["peer"]]
                fn, result = fn if isinstance(fn, tuple) else (fn, None)
                start = time.perf_counter()
                out = fn()
                seconds = time.perf_counter() - start
                if result:  # what to compare is computed outside the time
                    out = result()
                answer = {"seconds": seconds, "sample": sample(out)}
        except Exception as e:  # a peer that fails is reported, not fatal
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
