package explorer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/web/explorer"
	"github.com/randfeat/randfeat/web/explorer/internal/model"
)

const ready = "document.documentElement?.dataset.ready"

// open opens the page in a browser: built and by file://, or served.
func open(t *testing.T, served bool) (c *chromium, url string) {
	t.Helper()
	c = newChromium(t)
	if served {
		url = serve(t).URL + "/"
	} else {
		url = built(t)
	}
	c.size(1440, 1000, "light")
	c.call(nil, "Page.navigate", map[string]any{"url": url})
	c.until(ready)
	return c, url
}

func built(t *testing.T) (url string) {
	t.Helper()
	page, err := explorer.Build(context.Background(), ".")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "explorer.html")
	if err := os.WriteFile(path, page, 0o666); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// state is what the page is at.
func (c *chromium) state() (s model.State) {
	c.t.Helper()
	c.eval(&s, "state")
	return s
}

// shown are the numbers of a table by the name in its rows, null being none.
func (c *chromium) shown(table, name string) map[string]*float64 {
	c.t.Helper()
	var out map[string]*float64
	c.eval(&out, fmt.Sprintf(`Object.fromEntries([...document.querySelectorAll('#%s tbody tr')].map(
		r => [r.dataset.%s, r.dataset.raw === 'null' ? null : Number(r.dataset.raw)]))`, table, name))
	return out
}

// compare checks that what is shown is what the library says, natively, for the state of the page.
func (c *chromium) compare() {
	c.t.Helper()
	q, err := json.Marshal(c.state())
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := model.New().Call(context.Background(), "theory", q)
	if err != nil {
		c.t.Fatal(err)
	}
	type row struct {
		Family, Coupling string
		LogMSE           *float64
	}
	var want struct {
		Kernel              float64
		Chosen              row
		Families, Couplings []row
	}
	if err := json.Unmarshal(b, &want); err != nil {
		c.t.Fatal(err)
	}
	same := func(what string, got, want *float64) {
		c.t.Helper()
		// WebAssembly and this machine round alike but for fused operations.
		if (got == nil) != (want == nil) || got != nil && math.Abs(*got-*want) > 1e-9*(1+math.Abs(*want)) {
			c.t.Errorf("%s: the page has %v, the library %v", what, deref(got), deref(want))
		}
	}
	families, couplings := c.shown("families", "family"), c.shown("couplings", "coupling")
	if len(families) != len(want.Families) || len(couplings) != len(want.Couplings) {
		c.t.Errorf("%d families and %d couplings, want %d and %d", len(families), len(couplings), len(want.Families),
			len(want.Couplings))
	}
	for _, r := range want.Families {
		same(r.Family, families[r.Family], r.LogMSE)
	}
	for _, r := range want.Couplings {
		same(r.Coupling, couplings[r.Coupling], r.LogMSE)
	}
	var numbers []*float64
	c.eval(&numbers, `[...document.querySelectorAll('#numbers dd')].map(d => d.dataset.raw === 'null' ? null : Number(d.dataset.raw))`)
	same("kernel", numbers[0], &want.Kernel)
	same("error", numbers[3], want.Chosen.LogMSE)
}

func deref(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// In a browser: everything is drawn, the numbers are the library's, the keyboard moves sliders, an address restores the
// state, the advisor ranks as it does natively, nothing is wider than the window, and nothing complains.
func TestBrowser(t *testing.T) {
	for name, served := range map[string]bool{"built": false, "served": true} {
		t.Run(name, func(t *testing.T) { browse(t, served) })
	}
}

func browse(t *testing.T, served bool) {
	c, url := open(t, served)
	c.compare()
	var curves []int
	c.eval(&curves, `['plot-angle', 'plot-length', 'plot-features'].map(id => document.querySelectorAll('#' + id + ' .curve').length)`)
	var drawn []int
	c.eval(&drawn, `['draw-chosen', 'draw-iid'].map(id => document.querySelectorAll('#' + id + ' .omega').length)`)
	if fmt.Sprint(curves) != "[6 6 6]" || fmt.Sprint(drawn) != "[6 6]" {
		t.Errorf("%v curves, %v projections", curves, drawn)
	}

	before := c.state().Angle
	c.eval(nil, "document.getElementById('angle').focus()")
	for range 4 {
		c.call(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "ArrowRight",
			"code":                  "ArrowRight",
			"windowsVirtualKeyCode": 39})
		c.call(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": "ArrowRight", "code": "ArrowRight",
			"windowsVirtualKeyCode": 39})
	}
	c.until(fmt.Sprintf("state.angle === %v && location.hash.includes('angle=%v') && %s", before+2, before+2, ready))
	c.compare()

	// Another state, by its address only.
	hash := "#kernel=gaussian&family=%7B%22name%22%3A%22oprf%22%2C%22a%22%3A-0.1%7D&coupling=simplex&d=10&features=100" +
		"&x=0.5&y=2&angle=120&show=trig,oprf,zero-one&draw=2,5,3,0"
	c.call(nil, "Page.navigate", map[string]any{"url": "about:blank"})
	c.call(nil, "Page.navigate", map[string]any{"url": url + hash})
	c.until(ready)
	want := model.State{Kernel: "gaussian", Family: `{"name":"oprf","a":-0.1}`, Coupling: "simplex", Dim: 10,
		Features: 100,
		QueryLen: 0.5, KeyLen: 2, Angle: 120, Seed: 1}
	if got := c.state(); got != want {
		t.Errorf("restored %+v, want %+v", got, want)
	}
	var again string
	c.eval(&again, "decodeURIComponent(toHash())")
	if !strings.Contains(again, "show=trig,oprf,zero-one") || !strings.Contains(again, "draw=2,5,3,0") {
		t.Errorf("the address is %s", again)
	}
	c.compare()

	// A file is ranked as the library ranks it here.
	c.eval(nil, "document.getElementById('reset').click()")
	c.until("state.kernel === 'softmax' && " + ready)
	c.eval(nil, "state.features = 32; changed(); document.getElementById('sample').click()")
	c.until("document.querySelectorAll('#ranking tbody tr').length > 3")
	question := []byte(`{"kernel":"softmax","features":32,"names":[],"seed":1}`)
	b, err := model.New().Call(context.Background(), "advise", question)
	if err != nil {
		t.Fatal(err)
	}
	var native struct {
		Ranking []struct {
			Name  string
			Error float64
		}
	}
	if err := json.Unmarshal(b, &native); err != nil {
		t.Fatal(err)
	}
	ranking := c.shown("ranking", "name")
	for _, r := range native.Ranking[:5] {
		if got := ranking[r.Name]; got == nil || math.Abs(*got-r.Error) > 1e-6*r.Error {
			t.Errorf("%s: the page has %v, the library %v", r.Name, deref(got), r.Error)
		}
	}

	c.eval(nil, "document.getElementById('measure').click()")
	c.until("document.getElementById('measured').textContent.startsWith('Measured')")

	for _, w := range []int{380, 1440} {
		for _, scheme := range []string{"light", "dark"} {
			c.size(w, 900, scheme)
			var wide bool
			c.eval(&wide, "document.documentElement.scrollWidth > window.innerWidth")
			if wide {
				t.Errorf("at %d pixels the page is wider than the window", w)
			}
			if dir := os.Getenv("RANDFEAT_SHOTS"); dir != "" {
				c.shoot(filepath.Join(dir, fmt.Sprintf("%d-%s.png", w, scheme)))
			}
		}
	}
	// Frames while a slider moves with every one of them, and what they take of the page's own thread.
	busy := c.busy()
	var fps float64
	c.eval(&fps, `new Promise(done => {
		const from = performance.now()
		let frames = 0
		const step = () => {
			state.angle = (frames % 170) + 0.5
			changed()
			if (++frames < 120) requestAnimationFrame(step)
			else done(1000 * frames / (performance.now() - from))
		}
		requestAnimationFrame(step)
	})`)
	t.Logf("%.0f frames a second, %.1f ms of the page's thread each", fps, 1000*(c.busy()-busy)/120)
	c.until(ready)
	if m := c.messages(); len(m) > 0 {
		t.Errorf("the console has %s", strings.Join(m, "\n"))
	}
}
