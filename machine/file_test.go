package machine

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/kernel"
)

// models are one of each kind.
func models(t testing.TB) map[string]*Model {
	t.Helper()
	x, y := sample(1, 60, 3, 2)
	rows, _ := MatrixRows(x, y)
	must := func(m *Model, err error) *Model {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	structured := trigSpec(3, 8)
	structured.Coupling = coupling.Hadamard{K: 3}
	r, err := NewRidge(Setup{Spec: structured, Outputs: 2})
	if err == nil {
		err = r.AddRows(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := NewRidge(Setup{Spec: randfeat.Spec{Family: family.ELU{}, Coupling: coupling.IID{}, Dim: 3,
		M: 1}, Outputs: 2})
	if err == nil {
		err = fixed.AddRows(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSmoother(Setup{Spec: positiveSpec(3, 8), Outputs: 2})
	if err == nil {
		err = s.AddRows(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDensity(Setup{Spec: positiveSpec(3, 8)})
	if err == nil {
		err = rows.Each(defaultBlock, d.Add)
	}
	if err != nil {
		t.Fatal(err)
	}
	labelled, _ := MatrixRows(x, classes(y, 3))
	logistic, _, err := FitLogistic(Setup{Spec: trigSpec(3, 8), Outputs: 3}, labelled, LogisticOptions{})
	ridge := must(r.Model(1))
	ridge.Extra = map[string]string{"note": "ω"}
	ridge.Schema = &data.Schema{
		Fields: []data.Field{{Name: "a", Kind: data.Numeric, Mean: 1, Scale: 2}, {Name: "b", Kind: data.Categorical,
			Levels: []string{"ß"}}},
		Targets: []data.Target{{Name: "y", Mean: 1, Scale: 3}, {Name: "z", Scale: 1}}, IDs: []string{"id"},
	}
	exact := must(FitExact(Setup{Spec: randfeat.Spec{Family: family.Landmarks{}, Dim: 3, M: 60}, Outputs: 2}, x, y, 1))
	exact.Spec.Coupling = coupling.IID{} // as a file has it
	several := *exact
	several.Spec.Family = family.Landmarks{Also: []kernel.Kernel{{Kind: kernel.Laplace, Scale: 2}}}
	several.Weights = dense.New[float64](120, 2)
	for i := range 120 {
		copy(several.Weights.Row(i), exact.Weights.Row(i%60))
	}
	return map[string]*Model{
		"ridge": ridge, "several kernels": &several,
		"gp": must(r.GP(1, nil)), "smoother": must(s.Model(0)), "density": must(calibrated(d, rows)),
		"logistic": must(logistic, err), "no projections": must(fixed.Model(1)),
	}
}

func encoded(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestModelFile(t *testing.T) {
	x, _ := sample(2, 30, 3, 1)
	for name, m := range models(t) {
		path := filepath.Join(t.TempDir(), "model.rf")
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(predict(t, got, x).Data, predict(t, m, x).Data) {
			t.Errorf("%s: other predictions after loading", name)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: loaded\n%+v\nwant\n%+v", name, got, m)
		}
		if !bytes.Equal(encoded(t, got), encoded(t, m)) {
			t.Errorf("%s: other bytes when saved again", name)
		}
		if name == "ridge" && got.Omega[0].Fast == nil {
			t.Error("the fast form of structured projections is lost")
		}
	}
	if err := models(t)["ridge"].Save(t.TempDir()); err == nil {
		t.Error("a model was saved over a directory")
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("loading a directory: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("loading nothing: %v", err)
	}
	for _, name := range []string{"spec", "schema"} {
		m := models(t)["ridge"]
		m.Extra = map[string]string{name: ""}
		if _, err := m.WriteTo(new(bytes.Buffer)); !errors.Is(err, ErrSetup) {
			t.Errorf("reserved name %s: %v", name, err)
		}
	}
}

func TestDamagedModelFiles(t *testing.T) {
	m := models(t)["smoother"]
	b := encoded(t, m)
	for i := range b {
		if _, err := Read(b[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", i, len(b), err)
		}
		c := bytes.Clone(b)
		c[i] ^= 1 << (i % 8)
		if got, err := Read(c); err == nil && !reflect.DeepEqual(got, m) {
			t.Fatalf("flipped bit in byte %d (%q): no error and another model", i, b[i])
		} else if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("flipped bit in byte %d: %v", i, err)
		}
	}
	// Files with right checksums and wrong contents.
	for _, c := range []struct {
		says string
		edit func(*tensorfile.File)
	}{
		{"version \"3\"", func(f *tensorfile.File) { f.Metadata["version"] = "3" }},
		{"m = -", func(f *tensorfile.File) {
			f.Metadata["spec"] = strings.Replace(f.Metadata["spec"], `"m":`, `"m":-`, 1)
		}},
		{"version \"0\"", func(f *tensorfile.File) { f.Metadata["version"] = "0" }},
		{"version \"x\"", func(f *tensorfile.File) { f.Metadata["version"] = "x" }},
		{"created", func(f *tensorfile.File) { f.Metadata["history"] = `{"created":"yesterday"}` }},
		{"history", func(f *tensorfile.File) { f.Metadata["history"] = `[]` }},
		{"format", func(f *tensorfile.File) { f.Metadata["format"] = "pt" }},
		{"metadata \"model\"", func(f *tensorfile.File) { f.Metadata["model"] = "{" }},
		{"unknown field", func(f *tensorfile.File) { f.Metadata["model"] = `{"x":1}` }},
		{"spec", func(f *tensorfile.File) { f.Metadata["spec"] = "{}" }},
		{"projections", func(f *tensorfile.File) {
			f.Metadata["spec"] = strings.Replace(f.Metadata["spec"], `"dim":3`, `"dim":4`, 1)
		}},
		{"kind", func(f *tensorfile.File) {
			f.Metadata["model"] = strings.Replace(f.Metadata["model"], "smoother", "forest", 1)
		}},
		{"log_scale", func(f *tensorfile.File) {
			f.Metadata["model"] = strings.Replace(f.Metadata["model"], "smoother", "ridge", 1)
		}},
		{"weights", func(f *tensorfile.File) {
			f.Metadata["model"] = strings.Replace(f.Metadata["model"], `"outputs":2`, `"outputs":3`, 1)
		}},
		{"metadata \"schema\"", func(f *tensorfile.File) { f.Metadata["schema"] = `{"fields":[]}` }},
		{"metadata \"schema\"", func(f *tensorfile.File) { f.Metadata["schema"] = `{"field":[]}` }},
		{"2 encoded columns", func(f *tensorfile.File) {
			f.Metadata["schema"] = `{"fields":[{"name":"a","kind":"categorical","levels":["x"]}]}`
		}},
		{"1 targets", func(f *tensorfile.File) {
			f.Metadata["schema"] = `{"fields":[{"name":"a","kind":"categorical","levels":["x","y"]}],"targets":[{"name":"t","scale":1}]}`
		}},
		{"no tensor omega.0", func(f *tensorfile.File) { f.Tensors = f.Tensors[1:] }},
		{"weights", func(f *tensorfile.File) { f.Tensors = slices.Delete(f.Tensors, 1, 2) }},
		{"known", func(f *tensorfile.File) { f.Tensors = append(f.Tensors, tensorfile.Floats("more", nil, 0)) }},
		{"dimensions", func(f *tensorfile.File) { f.Tensors[1].Shape = []int{len(f.Tensors[1].Data) / 8} }},
		{"finite", func(f *tensorfile.File) { copy(f.Tensors[0].Data, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}) }},
		{"finite", func(f *tensorfile.File) { copy(f.Tensors[1].Data, []byte{1, 0, 0, 0, 0, 0, 0xf0, 0x7f}) }},
	} {
		f, err := tensorfile.Parse(bytes.Clone(b))
		if err != nil {
			t.Fatal(err)
		}
		c.edit(f)
		f.Seal()
		var out bytes.Buffer
		if _, err := f.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(out.Bytes()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error about %s: %v", c.says, err)
		}
	}
}

// Contents with right checksums: whatever is accepted can predict.
func FuzzRead(f *testing.F) {
	for _, m := range models(f) {
		c, err := tensorfile.Parse(encoded(f, m))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.Metadata["spec"], c.Metadata["model"], encoded(f, m))
	}
	f.Fuzz(func(t *testing.T, spec, model string, b []byte) {
		_, _ = Read(b)
		c, err := tensorfile.Parse(b)
		if err != nil || len(spec) > 2000 {
			return
		}
		c.Metadata = map[string]string{"format": fileFormat, "version": "1", "spec": spec, "model": model}
		c.Seal()
		var out bytes.Buffer
		if _, err := c.WriteTo(&out); err != nil {
			return
		}
		m, err := Read(out.Bytes())
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		p, err := NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		x := dense.New[float64](2, m.Spec.Dim)
		_ = p.Predict(dense.New[float64](2, m.Outputs), x, nil)
	})
}

func TestValidate(t *testing.T) {
	for name, m := range models(t) {
		for what, edit := range map[string]func(*Model){
			"a set too few":  func(m *Model) { m.Omega = m.Omega[:max(len(m.Omega)-1, 0)] },
			"a set too many": func(m *Model) { m.Omega = append(slices.Clip(m.Omega), coupling.Omega{}) },
			"no outputs":     func(m *Model) { m.Outputs = 0 },
			"no rows":        func(m *Model) { m.Rows = 0 },
			"another task":   func(m *Model) { m.Task = "ranking" },
			"negative λ":     func(m *Model) { m.Lambda = -1 },
			"another family": func(m *Model) { m.Spec.Family = family.Hybrid{} },
		} {
			c := *m
			if edit(&c); len(m.Omega) == 0 && what == "a set too few" {
				continue
			}
			if c.Validate() == nil {
				t.Errorf("%s model with %s is accepted", name, what)
			}
			if _, err := NewPredictor[float32](&c); err == nil {
				t.Errorf("%s model with %s predicts", name, what)
			}
		}
	}
}

func TestValidateSchema(t *testing.T) {
	all := models(t)
	fields := []data.Field{{Name: "a", Kind: data.Categorical, Levels: []string{"x", "y"}}}
	regression := []data.Target{{Name: "y", Scale: 1}, {Name: "z", Scale: 1}}
	classes := func(n int) []data.Target { return []data.Target{{Name: "c", Classes: []string{"p", "q", "r"}[:n]}} }
	for _, c := range []struct {
		model  string
		schema data.Schema
		ok     bool
	}{
		{"gp", data.Schema{Fields: fields, Targets: regression}, true},
		{"gp", data.Schema{Fields: fields, Targets: regression[:1]}, false},
		{"gp", data.Schema{Fields: fields}, false},
		{"gp", data.Schema{Fields: append(fields, data.Field{Name: "b", Kind: data.Numeric, Scale: 1}),
			Targets: regression},
			false},
		{"gp", data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Categorical, Levels: []string{"x", "x"}}},
			Targets: regression}, false},
		{"smoother", data.Schema{Fields: fields, Targets: append(classes(2), regression[0])}, false},
		{"logistic", data.Schema{Fields: fields, Targets: classes(3)}, true},
		{"logistic", data.Schema{Fields: fields, Targets: classes(2)}, false},
		{"logistic", data.Schema{Fields: fields, Targets: regression[:1]}, false},
		{"density", data.Schema{Fields: fields}, true},
		{"density", data.Schema{Fields: fields, Targets: regression[:1]}, false},
	} {
		m := *all[c.model]
		m.Schema = &c.schema
		if err := m.Validate(); (err == nil) != c.ok {
			t.Errorf("%s with %+v: %v", c.model, c.schema, err)
		}
	}
}

// The Gaussian density of one row at distance 0 is (s√(2π))^−d.
func TestLogDensity(t *testing.T) {
	m := models(t)["density"]
	s := m.Spec.Kernel.Scale
	if got, want := m.LogDensity(0), -3*math.Log(s*math.Sqrt(2*math.Pi)); math.Abs(got-want) > 1e-14 {
		t.Errorf("log density %g, want %g", got, want)
	}
	m.Spec.Kernel.Kind = kernel.Softmax
	if got := m.LogDensity(1.5); got != 1.5 {
		t.Errorf("score %g of a kernel without a density", got)
	}
}

// Files of version 1, whose schemas have no ranges, are read as they are.
func TestVersion1(t *testing.T) {
	for name, m := range models(t) {
		f, err := m.file()
		if err != nil {
			t.Fatal(err)
		}
		f.Metadata["version"] = "1"
		f.Seal()
		var b bytes.Buffer
		if _, err := f.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(b.Bytes()); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sketch of rows is saved with the model and read back; a model without one has none.
func TestSketchInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.rf")
	m := models(t)["ridge"]
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if back, err := Load(path); err != nil || back.Sketch != nil {
		t.Errorf("without a sketch: %v, %v", back.Sketch, err)
	}
	m.Sketch = new(RowSketch)
	m.Sketch.Add(42)
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if seen, known := back.Sketch.Seen(42); !seen || !known || back.Sketch.Len() != 1 || back.Extra["sketch"] != "" {
		t.Errorf("%+v", back.Sketch)
	}
}
