"""Interrupts, forks, leaks, imports: what a process with the library does."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import randfeat
from randfeat._lib import Bar


def python(code, **kwargs):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          **kwargs)  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_interrupt():
    code = """
    import gc, signal, sys, threading, time
    import numpy as np, randfeat
    from randfeat import _lib
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell begin with SIGINT ignored
    model = randfeat.RandFeatRegressor()  # imports scikit-learn before the interrupt
    x = np.random.default_rng(0).normal(size=(20000, 8))  # more than ten seconds
    live = _lib.lib().rf_live()
    def hit():
        global sent
        sent = time.monotonic()
        signal.raise_signal(signal.SIGINT)
    threading.Timer(1.5, hit).start()
    try:
        model.fit(x, np.sin(x).sum(axis=1))
        print("not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - sent
    deadline = time.monotonic() + 60
    while _lib.lib().rf_live() != live and time.monotonic() < deadline:
        time.sleep(0.05)
        gc.collect()
    print(took, _lib.lib().rf_live() - live)
    """
    r = python(code)
    assert r.returncode == 0, r.stderr
    took, left = r.stdout.split()
    # 0.5 s on an idle machine; tests do not depend on timing
    assert float(took) < 10 and left == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_after_use_is_an_error():
    code = """
    import os, sys, numpy as np, randfeat
    m = randfeat.Map({"family": "trig", "dim": 2, "m": 4})
    m(np.zeros((1, 2)))
    pid = os.fork()
    if pid == 0:
        try:
            m(np.zeros((1, 2)))
        except RuntimeError as err:
            os._exit(7 if "forkserver" in str(err) else 8)
        os._exit(9)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    r = python(code)
    assert r.stdout.strip() == "7", r.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_before_use_works():
    code = """
    import os, numpy as np, randfeat
    from randfeat import Map
    pid = os.fork()
    Map({"family": "trig", "dim": 2, "m": 4})(np.zeros((1, 2)))
    if pid == 0:
        os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert python(code).stdout.strip() == "5"


def test_import_is_light():
    code = "import sys, randfeat; print([m for m in ('numpy', 'sklearn', 'pandas', 'ctypes') if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_alpine():
    r = python("import sys; sys.implementation._multiarch = 'x86_64-linux-musl'; import randfeat")
    if sys.platform == "linux":
        assert "ImportError" in r.stderr and "musl" in r.stderr and "python:3-slim" in r.stderr


def test_without_sklearn():
    code = """
    import sys
    sys.modules["sklearn"] = None
    import numpy as np, randfeat
    print(randfeat.Map({"family": "trig", "dim": 2, "m": 4})(np.zeros((1, 2))).shape)
    randfeat.RandFeatRegressor
    """
    r = python(code)
    assert "(1, 8)" in r.stdout and "randfeat[sklearn]" in r.stderr


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _fits(n):
    from randfeat import _lib

    x = np.random.default_rng(0).normal(size=(200, 4))
    y = x[:, 0]
    for _ in range(n):
        m = randfeat.RandFeatRegressor(folds=1, map="exact", kernel="gaussian", bandwidth=1.0, alpha=0.1, n_jobs=1)
        m.fit(x, y).predict(x)
        del m
    _lib.lib().rf_collect()
    return _lib.lib().rf_live()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_fits_do_not_leak(request):
    n = 1000 if request.config.getoption("--long") else 30
    live = _fits(20)
    before = rss()
    assert _fits(n) <= live  # less: models of earlier tests
    assert rss() - before < 20e6


@pytest.mark.long
def test_interrupt_is_quick():
    """Ctrl-C of a long fit is answered within half a second."""
    code = """
    import numpy as np, randfeat
    x = np.random.default_rng(0).normal(size=(20000, 8))
    print("fitting", flush=True)
    randfeat.RandFeatRegressor().fit(x, np.sin(x).sum(axis=1))
    """
    p = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"fitting\n"
    time.sleep(3)
    start = time.monotonic()
    p.send_signal(signal.SIGINT)
    p.wait(timeout=20)
    assert time.monotonic() - start < 0.7 and b"KeyboardInterrupt" in p.stderr.read()


def test_bar_has_no_share_of_a_search():
    out = io.StringIO()
    out.isatty = lambda: True
    bar = Bar(out)
    bar("choose", 21, 21)
    bar("score", 5, 10)
    assert "choose" in out.getvalue() and "100 %" not in out.getvalue() and "50 %" in out.getvalue()
