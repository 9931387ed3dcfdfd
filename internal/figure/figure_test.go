package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// two curves that cross at 1000 on logarithmic axes, with intervals.
func two() *Figure {
	f := &Figure{Title: "Two", X: Axis{Label: "length", Log: true}, Y: Axis{Label: "ms", Log: true},
		Marks: []Mark{{Name: "crossing", X: 1000, Low: 800, High: 1300}}}
	for _, power := range []float64{2, 1} {
		s := Series{Name: fmt.Sprintf("power %v", power)}
		for l := 128.0; l <= 8192; l *= 2 {
			y := math.Pow(l/1000, power)
			s.X, s.Y, s.Low, s.High = append(s.X, l), append(s.Y, y), append(s.Low, 0.9*y), append(s.High, 1.2*y)
		}
		f.Series = append(f.Series, s)
		f.X.Ticks = s.X
	}
	return f
}

func svg(t *testing.T, f *Figure) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); err == io.EOF {
			return b.String()
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, b.String())
		}
	}
}

// labels are the texts of ticks and where they stand: x of the class x, y of the class y.
func labels(t *testing.T, svg, axis string) map[float64]float64 {
	t.Helper()
	out := map[float64]float64{}
	texts := regexp.MustCompile(`<text class="(.)" x="([^"]+)" y="([^"]+)">([^<]+)<`)
	for _, m := range texts.FindAllStringSubmatch(svg, -1) {
		if m[1] != axis {
			continue
		}
		at, err := strconv.ParseFloat(m[map[string]int{"x": 2, "y": 3}[axis]], 64)
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			t.Fatal(err)
		}
		out[v] = at
	}
	return out
}

var pointAt = regexp.MustCompile(`<path class="point" transform="translate\(([^,]+),([^)]+)\)"[^>]*><title>([^<]+)<`)

// Points stand where the labels of both axes say.
func TestPointsAgreeWithLabels(t *testing.T) {
	for name, log := range map[string]bool{"log": true, "linear": false} {
		f := two()
		f.X.Log, f.Y.Log = log, log
		text := svg(t, f)
		interpolate := func(at map[float64]float64, v float64) float64 {
			lo, hi := math.Inf(1), math.Inf(-1)
			for k := range at {
				lo, hi = math.Min(lo, k), math.Max(hi, k)
			}
			g := func(v float64) float64 {
				if log {
					return math.Log(v)
				}
				return v
			}
			return at[lo] + (g(v)-g(lo))/(g(hi)-g(lo))*(at[hi]-at[lo])
		}
		x, y := labels(t, text, "x"), labels(t, text, "y")
		if len(x) < 3 || len(y) < 3 {
			t.Fatalf("%s: labels %v and %v", name, x, y)
		}
		points := pointAt.FindAllStringSubmatch(text, -1)
		if len(points) != 14 {
			t.Fatalf("%s: %d points", name, len(points))
		}
		for i, p := range points {
			s := f.Series[i/7]
			px, _ := strconv.ParseFloat(p[1], 64)
			py, _ := strconv.ParseFloat(p[2], 64)
			// labels stand on a line below their tick
			wantX, wantY := interpolate(x, s.X[i%7]), interpolate(y, s.Y[i%7])-4.5
			if math.Abs(px-wantX) > 0.5 || math.Abs(py-wantY) > 0.5 {
				t.Errorf("%s: point %v, %v at %v, %v; the axes say %v, %v", name, s.X[i%7], s.Y[i%7], px, py, wantX,
					wantY)
			}
			if px < left || px > usualWidth-right || py > height-bottom || py < 60 {
				t.Errorf("%s: a point outside the axes: %v, %v", name, px, py)
			}
		}
	}
}

func TestParts(t *testing.T) {
	f := two()
	f.Title, f.Series[0].Name = `<a> & "b"`+"\x00", "<exact>"
	text := svg(t, f)
	for says, n := range map[string]int{"&lt;a&gt; &amp; &#34;b&#34;\uFFFD</text>": 1,
		"&lt;exact&gt;: length 128, 0.01638 ms": 1,
		`class="bar"`:                           14, `class="range"`: 1, `class="at"`: 2, `class="point"`: 16,
		"prefers-color-scheme: dark": 1,
		"<exact>":                    0} {
		if got := strings.Count(text, says); got != n {
			t.Errorf("%d of %q, want %d", got, says, n)
		}
	}
	if again := svg(t, f); again != text {
		t.Error("the same figure is drawn otherwise")
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		log      bool
		want     []float64
	}{
		{-2.1, 2.1, true, []float64{0.01, 0.1, 1, 10, 100}},
		{-0.1, 1.1, true, []float64{1, 2, 5, 10}},
		{2, 3, true, []float64{100, 200, 500, 1000}},
		{-12, 12, true, []float64{1e-12, 1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9, 1e12}},
		{0, 1, false, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}},
		{-7, 33, false, []float64{-5, 0, 5, 10, 15, 20, 25, 30}},
		{1e-7, 4e-7, false, []float64{1e-7, 1.5e-7, 2e-7, 2.5e-7, 3e-7, 3.5e-7, 4e-7}},
	} {
		a := Axis{Log: c.log}
		lo, hi := c.from, c.to
		pad := 0.03 / 1.06 * (hi - lo) // margin that scale adds
		lo, hi = lo+pad, hi-pad
		if c.log {
			lo, hi = math.Pow(10, lo), math.Pow(10, hi)
		}
		s := a.scale(0, 100, []float64{lo, hi})
		got := s.major
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v to %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.1: "0.1", 1e-5: "1e-5", 2.5e6: "2.5e6", 123456: "123500",
		-0.25: "-0.25", 1e-4: "0.0001"} {
		if got := label(v); got != want {
			t.Errorf("label of %v: %q, want %q", v, got, want)
		}
	}
}

// Labels never overlap: of too many, some are left out.
func TestCrowdedLabels(t *testing.T) {
	f := two()
	f.X.Ticks = nil
	for v := 130.0; v < 8000; v *= 1.03 {
		f.X.Ticks = append(f.X.Ticks, v)
	}
	last := math.Inf(-1)
	at := labels(t, svg(t, f), "x")
	if len(at) < 5 || len(at) > 20 {
		t.Fatalf("%d labels", len(at))
	}
	for _, v := range f.X.Ticks {
		x, shown := at[math.Round(v*10)/10]
		if !shown {
			continue
		}
		if x-last < 4*letter {
			t.Errorf("labels at %v and %v", last, x)
		}
		last = x
	}
}

func TestWrap(t *testing.T) {
	got := wrap(" one two  three fourfive ", 9)
	if want := []string{"one two", "three", "fourfive"}; !reflect.DeepEqual(got, want) || wrap(" ", 9) != nil {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOnePoint(t *testing.T) {
	for _, log := range []bool{false, true} {
		svg(t, &Figure{X: Axis{Log: log}, Y: Axis{Log: log}, Series: []Series{{X: []float64{3}, Y: []float64{5}}}})
	}
}

func TestErrors(t *testing.T) {
	one := Series{X: []float64{1, 2}, Y: []float64{1, 2}}
	for says, f := range map[string]*Figure{
		"0 series":              {},
		"7 series":              {Series: make([]Series, 7)},
		"2 x and 1 y":           {Series: []Series{{X: []float64{1, 2}, Y: []float64{1}}}},
		"intervals from 1 to 2": {Series: []Series{{X: one.X, Y: one.Y, Low: []float64{1}, High: one.Y}}},
		"NaN on the y axis":     {Series: []Series{{X: one.X, Y: []float64{1, math.NaN()}}}},
		"0 on the x axis":       {X: Axis{Log: true}, Series: []Series{{X: []float64{0, 1}, Y: one.Y}}},
		"-1 on the y axis": {Y: Axis{Log: true}, Series: []Series{{X: one.X, Y: one.Y, Low: []float64{-1, 1},
			High: one.Y}}},
		"+Inf on the x axis": {Series: []Series{one}, Marks: []Mark{{X: 1, Low: 1, High: math.Inf(1)}}},
	} {
		if err := f.WriteSVG(io.Discard); !errors.Is(err, ErrFigure) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Ticks below the first number are multiples of a step that begin at −0.
func TestZeroHasNoSign(t *testing.T) {
	if got := label(math.Copysign(0, -1)); got != "0" {
		t.Errorf("label of −0 is %q", got)
	}
}

func TestNarrowAndLoose(t *testing.T) {
	f := two()
	f.Width, f.Title = 400, strings.Repeat("wide title ", 8)
	f.Series[1].Loose = true
	var b bytes.Buffer
	if err := f.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	if !strings.Contains(svg, `viewBox="0 0 400 `) || strings.Count(svg, `class="title"`) < 2 {
		t.Errorf("a narrow figure with a long title:\n%.600s", svg)
	}
	if n := strings.Count(svg, `<path class="line"`); n != 2*(len(f.Series)-1) { // in the legend and between points
		t.Errorf("%d lines for %d series, one of them loose", n, len(f.Series))
	}
}

// Levels stand on the axis by name, aslant if they are long, cut if they are longer, with bars for their rows; the axis
// covers what other figures have.
func TestNamesAndShares(t *testing.T) {
	f := Figure{Width: 420, X: Axis{Ticks: []float64{1, 2}, Names: []string{"<Mon>", "Tue"}},
		Y:      Axis{Over: []float64{0, 100}},
		Series: []Series{{X: []float64{1, 2}, Y: []float64{40, 60}, Share: []float64{0.25, 0.75}}}}
	draw := func() string {
		var b bytes.Buffer
		if err := f.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	flat := draw()
	for _, want := range []string{">&lt;Mon&gt;</text>", ">Tue</text>", ">100</text>", "<title>75 %</title>"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %s in %s", want, flat)
		}
	}
	if strings.Contains(flat, "rotate(-40)") {
		t.Error("short names are aslant")
	}
	f.X.Names = []string{strings.Repeat("n", 40), "Tue"}
	if s := draw(); strings.Count(s, "rotate(-40)") != 2 ||
		!strings.Contains(s, ">"+strings.Repeat("n", slantLetters-1)+"…<") {
		t.Errorf("long names: %s", s)
	}
	f.X.Names = f.X.Names[:1]
	if err := f.WriteSVG(io.Discard); !errors.Is(err, ErrFigure) {
		t.Errorf("too few names: %v", err)
	}
}

// All pages share the colours of page.css: no other file defines a background.
func TestOneStyle(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
				return fs.SkipDir
			}
			return err
		}
		switch ext := filepath.Ext(path); {
		case filepath.Base(path) == "page.css", strings.HasSuffix(path, "_test.go"):
			return nil
		case ext != ".css" && ext != ".html" && ext != ".go":
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil && regexp.MustCompile(`--back:|color-scheme: light dark[^"]*}`).Match(b) {
			t.Errorf("%s defines colours of pages; use figure.Page", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
