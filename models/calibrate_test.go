package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

// long is a model whose context has 2048 tokens, and a text for it.
func long(t testing.TB, opt models.Options) (*models.Model, []int32) {
	return longAt(t, tiny.Long(t), opt)
}

// longAt opens the folder of tiny.Long.
func longAt(t testing.TB, folder string, opt models.Options) (*models.Model, []int32) {
	m, err := models.Open(folder, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, m.Tokens.EncodeText(nil, tiny.Text(20_000))
}

// A calibration that does not fit is refused by its reason.
func TestCalibrationErrors(t *testing.T) {
	m, ids := long(t, models.Options{})
	a, err := m.Decoder.Calibrate(ctx, ids[:1024], 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := *a
	other.Model = strings.Repeat("0", 64)
	if _, err := m.Decoder.With(&other); !errors.Is(err, models.ErrCalibration) ||
		!strings.Contains(err.Error(), "of another model") {
		t.Error(err)
	}
	short := *a
	losses := *a.Losses
	losses.Weight = losses.Weight[:1]
	short.Losses = &losses
	if _, err := m.Decoder.With(&short); !errors.Is(err, models.ErrCalibration) {
		t.Error(err)
	}
	b, _ := json.Marshal(a)
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "cut": string(b[:len(b)/2]),
		"version": strings.Replace(string(b), `"version":1`, `"version":2`, 1),
		"field":   strings.Replace(string(b), `"tokens"`, `"token"`, 1),
		"none":    `{"format":"randfeat model calibration","version":1}`} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := models.ReadCalibration(path); !errors.Is(err, models.ErrCalibration) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		ids      []int32
		passages int
		says     string
	}{
		{ids[:1000], 1, "the text has 1000 tokens"},
		{ids, 0, "0 passages"},
	} {
		if _, err := m.Decoder.Calibrate(ctx, c.ids, c.passages, nil); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	if _, err := open(t, "llama").Decoder.Calibrate(ctx, ids, 1, nil); err == nil ||
		!strings.Contains(err.Error(), "context has 256 tokens") {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Decoder.Calibrate(done, ids, 1, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A calibration decides the slots of compacted sessions, in every precision. They save, resume and fork with the same
// bits.
func TestCalibrate(t *testing.T) {
	folder := tiny.Long(t)
	m, ids := longAt(t, folder, models.Options{Precision: "int8"})
	a, err := m.Decoder.Calibrate(ctx, ids[:1024], 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Losses.Context != 512 || a.Losses.Texts != 1 || a.Tokens != 1024 {
		t.Fatalf("%d tokens, %+v", a.Tokens, a.Losses)
	}
	for l := range 2 {
		for h := range 2 {
			if e := a.Losses.Compact[l][h]; !(e[0] > e[len(e)-1]) || !(a.Losses.Weight[l] > 0) {
				t.Errorf("layer %d, head %d: errors %v, weight %v", l, h, e, a.Losses.Weight[l])
			}
		}
	}
	if again, err := m.Decoder.Calibrate(ctx, ids[:1024], 2, nil); err != nil || !reflect.DeepEqual(a, again) {
		t.Errorf("the same text gave another calibration (%v)", err)
	}
	path := filepath.Join(t.TempDir(), "a.json")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	if a, err = models.ReadCalibration(path); err != nil {
		t.Fatal(err)
	}
	float, _ := longAt(t, folder, models.Options{Precision: "float32"})
	if _, err := float.Decoder.With(a); err != nil {
		t.Errorf("another precision of the same files: %v", err)
	}
	d, err := m.Decoder.With(a)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Session()
	if err != nil {
		t.Fatal(err)
	}
	s.KeepQueries()
	if err := s.Read(ctx, ids[:600]); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(8); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "s.rfs")
	if err := s.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	r, err := d.Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	f := s.Fork()
	want, _ := generate(t, s, models.Generate{MaxTokens: 8})
	for _, other := range []*models.Session{r, f} {
		if got, _ := generate(t, other, models.Generate{MaxTokens: 8}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := float.Decoder.Resume(path); !errors.Is(err, models.ErrSession) ||
		!strings.Contains(err.Error(), "another precision") {
		t.Error(err)
	}
	checks, err := d.CheckCompact(ctx, ids[2000:], 700, 2, []int{4, 8})
	if err != nil || len(checks) != 2 {
		t.Fatal(checks, err)
	}
	for _, c := range checks {
		if !(c.Expected > 1 && c.Expected < 1.5) || !(c.Ratio > 0.9 && c.Ratio <= c.Worst && c.Worst < 1.2) ||
			c.BytesFew >= c.BytesFull {
			t.Errorf("%+v", c)
		}
	}
	if _, err := d.CheckCompact(ctx, ids[:100], 700, 1, nil); err == nil {
		t.Error("a text of 100 tokens was accepted")
	}
}

// Whatever a file says, it is refused or it runs.
func FuzzCalibration(f *testing.F) {
	m, ids := long(f, models.Options{})
	a, err := m.Decoder.Calibrate(ctx, ids, 1, nil)
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"randfeat model calibration","version":1,"model":"","tokens":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := models.ParseCalibration(b)
		if err != nil {
			return
		}
		x.Model = a.Model
		d, err := m.Decoder.With(x)
		if err != nil {
			return
		}
		s, err := d.Session()
		if err != nil {
			t.Fatal(err)
		}
		s.KeepQueries()
		if err := s.Read(ctx, ids[:100]); err != nil {
			t.Fatal(err)
		}
		if err := s.Compact(4); err != nil {
			t.Error(err)
		}
	})
}

// Saving a session takes its size once more, not several times.
func TestSaveTakesItsSizeOnce(t *testing.T) {
	m, ids := long(t, models.Options{Precision: "int8"})
	s, err := m.Decoder.Session()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(ctx, ids[:1500]); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.rfs")
	if err := s.Save(path, ""); err != nil { // the first call hashes the files of the model
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; float64(n) > 1.6*float64(info.Size()) {
		t.Errorf("%d bytes were allocated for a file of %d", n, info.Size())
	}
}
