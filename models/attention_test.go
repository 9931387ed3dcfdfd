package models_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

// long is a model whose context has 2048 tokens, and a text for it.
func long(t testing.TB, opt models.Options) (*models.Model, []int32) {
	m, err := models.Open(tiny.Long(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, m.Tokens.EncodeText(nil, tiny.Text(20_000))
}

// Heads are exact where exact attention is faster or nothing else is accurate, and the choice survives its file.
func TestCalibrate(t *testing.T) {
	for _, opt := range []models.Options{{}, {Precision: "int8"}} {
		m, ids := long(t, opt)
		if len(ids) < 3*1200 {
			t.Fatalf("%d tokens", len(ids))
		}
		cal := models.Calibration{Tol: 0.3, Length: 1200, Rates: &models.DecodeRates{Exact: 1, Centroid: 1}}
		a, err := m.Decoder.Calibrate(ctx, ids[:2400], cal)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(a.Choice.Heads); n != 4 || a.Exact() == n || a.Tokens != 2400 || a.Choice.Length != 1200 {
			t.Fatalf("%d of %d heads are exact, %d tokens in passages of %d", a.Exact(), n, a.Tokens, a.Choice.Length)
		}
		again, err := m.Decoder.Calibrate(ctx, ids[:2400], cal)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := json.Marshal(a)
		if y, _ := json.Marshal(again); !bytes.Equal(x, y) {
			t.Error("the same text gave another choice")
		}
		twice, err := m.Decoder.Calibrate(ctx, slices.Concat(ids[1200:2400], ids[1200:2400]), cal)
		if err != nil {
			t.Fatal(err)
		}
		if y, _ := json.Marshal(twice); bytes.Equal(x, y) {
			t.Error("the first passage does not matter")
		}
		for _, c := range []models.Calibration{
			{Tol: 0.3, Length: 1200, Rates: &models.DecodeRates{Exact: 1, Centroid: 10}}, // exact is faster
			{Tol: 1e-6, Length: 1200, Rates: &models.DecodeRates{Exact: 1, Centroid: 1e-9}},
		} {
			b, err := m.Decoder.Calibrate(ctx, ids[:2400], c)
			if err != nil || b.Exact() != len(b.Choice.Heads) {
				t.Fatalf("%+v: %d heads are exact, want all (%v)", c, b.Exact(), err)
			}
			d, err := m.Decoder.With(b)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := score(t, d, ids[:1500]), score(t, m.Decoder, ids[:1500]); got != want {
				t.Errorf("exact heads score %v, want %v", got, want)
			}
		}
		path := filepath.Join(t.TempDir(), "a.json")
		if err := a.Save(path); err != nil {
			t.Fatal(err)
		}
		saved, err := models.ReadAttention(path)
		if err != nil {
			t.Fatal(err)
		}
		checkAttention(t, m, a, saved, ids)
		if r, s := a.Shares(1200); !(r > 0 && r < 1) || math.Abs(r-s) > 1e-9 { // equal rates
			t.Errorf("shares %v and %v", r, s)
		}
	}
}

func score(t testing.TB, d *models.Decoder, ids []int32) float64 {
	t.Helper()
	s, err := d.Session()
	if err != nil {
		t.Fatal(err)
	}
	sum, _, err := s.Score(ctx, ids)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// checkAttention runs saved and compares it with a and with exact attention, on text after that of the calibration.
func checkAttention(t *testing.T, m *models.Model, a, saved *models.Attention, ids []int32) {
	t.Helper()
	d, err := m.Decoder.With(saved)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Decoder.With(a)
	if err != nil {
		t.Fatal(err)
	}
	fresh := ids[2400:3600]
	got, want := score(t, d, fresh), score(t, m.Decoder, fresh)
	if got == want || got != score(t, e, fresh) {
		t.Errorf("score %v, exact %v, before saving %v", got, want, score(t, e, fresh))
	}
	c, err := m.Decoder.Check(ctx, saved, fresh, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(fresh) - 1)
	if math.Abs(c.Exact-math.Exp(want/n)) > 1e-9*c.Exact || math.Abs(c.Chosen-math.Exp(got/n)) > 1e-9*c.Chosen ||
		c.Ratio != c.Chosen/c.Exact || c.Tokens != 1200 || len(c.Heads) != 4 || len(c.Speeds) != 2 {
		t.Errorf("%+v", c)
	}
	for i, h := range c.Heads {
		p := a.Choice.Heads[i]
		if h.Layer != i/2 || h.Head != i%2 || h.Method != string(p.Method) || h.Expected != p.Expected {
			t.Errorf("head %d: %+v", i, h)
		}
		// Tol is the upper end of an interval of 90 % on other text.
		if exact := p.Method == choose.Exact; exact != (h.Measured == 0) || !(h.Measured < 0.45) {
			t.Errorf("head %d: %+v", i, h)
		}
	}
	if c.Heads[0].Measured == c.Heads[1].Measured {
		t.Error("two heads have the same error")
	}
	// A session with this attention goes on from a file, and is of no use to exact attention.
	s, err := d.Session()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(ctx, fresh[:900]); err != nil {
		t.Fatal(err)
	}
	if got, most := s.Bytes(), d.SessionBytes(900); got > most {
		t.Errorf("%d bytes, at most %d were announced", got, most)
	}
	path := filepath.Join(t.TempDir(), "s.rfs")
	if err := s.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	b, err := d.Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := generate(t, s, models.Generate{MaxTokens: 8})
	if y, _ := generate(t, b, models.Generate{MaxTokens: 8}); x != y {
		t.Errorf("%q after a file, want %q", y, x)
	}
	choice := *a.Choice
	choice.Heads = slices.Clone(choice.Heads)
	choice.Heads[0] = choose.Head{Plan: choose.Plan{Method: choose.Exact}}
	changed := *a
	changed.Choice = &choice
	third, err := m.Decoder.With(&changed)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []*models.Decoder{m.Decoder, third} {
		if _, err := other.Resume(path); !errors.Is(err, models.ErrSession) ||
			!strings.Contains(err.Error(), "precision, attention or memory") {
			t.Error(err)
		}
	}
}

func TestAttentionErrors(t *testing.T) {
	m, ids := long(t, models.Options{})
	rates := &models.DecodeRates{Exact: 1, Centroid: 1}
	a, err := m.Decoder.Calibrate(ctx, ids, models.Calibration{Tol: 0.3, Length: 1024, Rates: rates})
	if err != nil {
		t.Fatal(err)
	}
	other, _ := long(t, models.Options{Precision: "int8"})
	if _, err := other.Decoder.With(a); !errors.Is(err, models.ErrAttention) ||
		!strings.Contains(err.Error(), "calibrate again") {
		t.Error(err)
	}
	short := *a
	short.Choice = a.Choice.Range(0, 3)
	if _, err := m.Decoder.With(&short); !errors.Is(err, models.ErrAttention) {
		t.Error(err)
	}
	b, _ := json.Marshal(a)
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "cut": string(b[:len(b)/2]),
		"version": strings.Replace(string(b), `"version":1`, `"version":2`, 1),
		"field":   strings.Replace(string(b), `"tokens"`, `"token"`, 1),
		"none":    `{"format":"randfeat model attention","version":1}`} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := models.ReadAttention(path); !errors.Is(err, models.ErrAttention) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		ids  []int32
		cal  models.Calibration
		says string
	}{
		{ids[:1000], models.Calibration{}, "the text has 1000 tokens"},
		{ids, models.Calibration{Tol: math.NaN()}, "Tol NaN"},
		{ids, models.Calibration{Length: 10}, "Length 10,"},
	} {
		if _, err := m.Decoder.Calibrate(ctx, c.ids, c.cal); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	if _, err := open(t, "llama").Decoder.Calibrate(ctx, ids, models.Calibration{}); err == nil ||
		!strings.Contains(err.Error(), "context has 256 tokens") {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Decoder.Calibrate(done, ids, models.Calibration{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := m.Decoder.Check(ctx, a, ids[:1], 0); err == nil {
		t.Error("a text of one token was accepted")
	}
}

// Slots take the same memory for any text, and are exact while they hold all keys.
func TestConstant(t *testing.T) {
	m, ids := long(t, models.Options{})
	d, err := m.Decoder.Constant(256)
	if err != nil {
		t.Fatal(err)
	}
	var size [2]int64
	for i, n := range []int{600, 1800} {
		s, err := d.Session()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Read(ctx, ids[:n]); err != nil {
			t.Fatal(err)
		}
		if size[i] = s.Bytes(); size[i] > d.SessionBytes(n) {
			t.Errorf("%d bytes, at most %d were announced", size[i], d.SessionBytes(n))
		}
	}
	if size[0] != size[1] {
		t.Errorf("%d bytes after 600 tokens, %d after 1800", size[0], size[1])
	}
	if got, want := score(t, d, ids[:200]), score(t, m.Decoder, ids[:200]); math.Abs(got-want) > 1e-3*want {
		t.Errorf("score %v, exact %v", got, want)
	}
	if got, want := score(t, d, ids[:1800]), score(t, m.Decoder, ids[:1800]); got == want {
		t.Error("nothing was forgotten")
	}
	if _, err := m.Decoder.Constant(3); err == nil {
		t.Error("three keys were accepted")
	}
}

// Budgets of a calibration decide the slots of compacted sessions and of constant memory; both save, resume and fork
// with the same bits.
func TestBudgets(t *testing.T) {
	m, ids := long(t, models.Options{Precision: "int8"})
	a, err := m.Decoder.Calibrate(ctx, ids, models.Calibration{Length: 1024, Passages: 1, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	if a.Exact() != 4 || a.Budgets == nil || a.Budgets.Context != 512 || a.Budgets.Texts != 1 {
		t.Fatalf("%d exact heads, budgets %+v", a.Exact(), a.Budgets)
	}
	for l := range 2 {
		for h := range 2 {
			if e := a.Budgets.Compact[l][h]; !(e[0] > e[len(e)-1]) || !(a.Budgets.Weight[l] > 0) {
				t.Errorf("layer %d, head %d: errors %v, weight %v", l, h, e, a.Budgets.Weight[l])
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a.json")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	if a, err = models.ReadAttention(path); err != nil {
		t.Fatal(err)
	}
	d, err := m.Decoder.With(a)
	if err != nil {
		t.Fatal(err)
	}
	constant, err := d.Constant(128)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for i, d := range []*models.Decoder{d, constant, constant} {
		s, err := d.Session()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.KeepQueries()
		}
		if err := s.Read(ctx, ids[:600+600*i]); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			if err := s.Compact(8); err != nil {
				t.Fatal(err)
			}
		case 1:
			size = s.Bytes()
		case 2:
			if s.Bytes() != size || size > d.SessionBytes(1800) {
				t.Errorf("%d bytes after 1200 tokens, %d after 1800", size, s.Bytes())
			}
		}
		path := filepath.Join(t.TempDir(), "s.rfs")
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
				t.Errorf("%d: %q, want %q", i, got, want)
			}
		}
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
	found, err := d.CheckNeedles(ctx, ids, 900, 1, []int{8})
	if err != nil || len(found) != 2 || found[1].Codes != 8 || found[1].Factor != 8 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := d.CheckCompact(ctx, ids[:100], 700, 1, nil); err == nil {
		t.Error("a text of 100 tokens was accepted")
	}
	a.Budgets.Weight = a.Budgets.Weight[:1]
	if _, err := m.Decoder.With(a); !errors.Is(err, models.ErrAttention) {
		t.Error(err)
	}
}

// Heads attend exactly in texts that are too short for their centroids to be faster, and the other way round.
func TestAttentionByLength(t *testing.T) {
	m, ids := long(t, models.Options{})
	a, err := m.Decoder.Calibrate(ctx, ids, models.Calibration{Tol: 0.3, Length: 1024, Passages: 1,
		Rates: &models.DecodeRates{Exact: 1, Centroid: 1e-3}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.From {
		a.From[i] = 1000
	}
	if a.Exact() == len(a.From) {
		t.Fatal("no head uses centroids")
	}
	d, err := m.Decoder.With(a)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := score(t, d, ids[:999]), score(t, m.Decoder, ids[:999]); x != y {
		t.Errorf("999 tokens score %v, exact %v", x, y)
	}
	if x, y := score(t, d, ids[:1000]), score(t, m.Decoder, ids[:1000]); x == y {
		t.Error("1000 tokens do not use centroids")
	}
	if a.Centroids(999) != 0 || a.Centroids(1000) == 0 {
		t.Errorf("%d and %d heads", a.Centroids(999), a.Centroids(1000))
	}
	slow, err := m.Decoder.Calibrate(ctx, ids, models.Calibration{Tol: 0.3, Length: 1024, Passages: 1,
		Rates: &models.DecodeRates{Exact: 1, Centroid: 1e-3, ReadExact: 1, ReadCentroid: 100}})
	if err != nil || slow.Exact() != len(slow.From) {
		t.Errorf("heads that read more slowly with centroids use them: %v", err)
	}
}

// Whatever a file says, it is refused or it runs.
func FuzzAttention(f *testing.F) {
	m, ids := long(f, models.Options{})
	rates := &models.DecodeRates{Exact: 1, Centroid: 1}
	a, err := m.Decoder.Calibrate(ctx, ids, models.Calibration{Tol: 0.3, Length: 1024, Passages: 1, Rates: rates})
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"randfeat model attention","version":1,"model":"","tokens":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := models.ParseAttention(b)
		if err != nil {
			return
		}
		x.Shares(x.Choice.Length)
		x.Model = a.Model
		d, err := m.Decoder.With(x)
		if err != nil {
			return
		}
		score(t, d, ids[:40])
	})
}
