package tabular

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
)

// table is a CSV of n rows: two numbers, a colour, a number to predict and a class.
func table(n int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	var b bytes.Buffer
	b.WriteString("a,b,colour,y,class\n")
	for range n {
		u, v, c := r.NormFloat64(), r.NormFloat64(), r.IntN(3)
		y := math.Sin(2*u) + v*float64(c) + 0.1*r.NormFloat64()
		class := "low"
		if y > 0.3 {
			class = "high"
		}
		fmt.Fprintf(&b, "%.5g,%.5g,%s,%.5g,%s\n", u, v, []string{"red", "green", "blue"}[c], y, class)
	}
	return b.Bytes()
}

// kinds are a case for every kind of sums. What is given leaves little to choose, to be quick.
func kinds() map[string]Options {
	base := Options{Seed: 3, Features: 48, Sample: 256, Folds: 3, Block: 100, Scaling: scalingStandard}
	with := func(kind machine.Kind, target string, change func(*Options)) Options {
		o := base
		o.Kind = kind
		o.Learn = data.LearnOptions{Skip: []string{"y", "class"}}
		if target != "" {
			o.Learn = data.LearnOptions{Targets: []string{target}, Skip: []string{map[string]string{"y": "class",
				"class": "y"}[target]}}
		}
		if change != nil {
			change(&o)
		}
		return o
	}
	return map[string]Options{
		"ridge":    with(machine.KindRidge, "y", nil),
		"nystrom":  with(machine.KindRidge, "y", func(o *Options) { o.Map, o.Bandwidth = MapNystrom, 1.5 }),
		"classes":  with(machine.KindRidge, "class", func(o *Options) { o.Float32 = true }),
		"gp":       with(machine.KindGP, "y", func(o *Options) { o.Bandwidth = 1.5 }),
		"smoother": with(machine.KindSmoother, "y", func(o *Options) { o.Bandwidth = 1 }),
		"density":  with(machine.KindDensity, "", func(o *Options) { o.Bandwidth = 1 }),
		"logistic": with(machine.KindLogistic, "class", func(o *Options) { o.Bandwidth, o.Lambda = 1.5, 0.01 }),
	}
}

// outcome is what must not depend on interruptions: the bytes of the model, and the report but for times.
func outcome(t testing.TB, m *machine.Model, r *Report) (model, report []byte) {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	c := *r
	c.Seconds, c.Stages, c.Resumed = 0, nil, 0
	report, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), report
}

func opened(t testing.TB, b []byte) data.Source {
	t.Helper()
	return openedUnits(t, b, 0)
}

// openedUnits cuts the table into units of some bytes.
func openedUnits(t testing.TB, b []byte, size int64) data.Source {
	t.Helper()
	src, err := text.OpenBytes("table.csv", b, data.Options{UnitBytes: size})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// stopAt fits until progress has been reported n times and says whether the fit was over before.
func stopAt(t testing.TB, src data.Source, o Options, n int) (*machine.Model, *Report, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := 0
	o.Progress = func(string, int64, int64) {
		if calls++; calls == n {
			cancel()
		}
	}
	m, r, err := Fit(ctx, src, o)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return m, r, calls
}

// A fit that is stopped again and again, wherever it is, ends with the bytes of one that never was.
func TestInterruptedFitHasTheSameBytes(t *testing.T) {
	src := opened(t, table(1730))
	for name, o := range kinds() {
		t.Run(name, func(t *testing.T) {
			m, r, calls := stopAt(t, src, o, 0)
			model, report := outcome(t, m, r)
			o.Checkpoint, o.CheckpointEvery = filepath.Join(t.TempDir(), "c"), time.Nanosecond
			stops, rows, from := 0, map[int64]bool{}, 0
			// 13 calls more every time: the fit always gets farther than the time before.
			for at := 7; ; at += 13 {
				m, r, from = stopAt(t, src, o, at)
				if m != nil {
					break
				}
				stops++
				if c := readState(t, o.Checkpoint); c != nil {
					rows[c.Rows] = true
				}
				if stops > calls {
					t.Fatal("the fit never ends")
				}
			}
			gotModel, gotReport := outcome(t, m, r)
			if !bytes.Equal(gotModel, model) {
				t.Error("another model")
			}
			if !bytes.Equal(gotReport, report) {
				t.Errorf("another report:\n%s\nwant\n%s", gotReport, report)
			}
			if stops < 2 || r.Resumed == 0 || from >= calls+13 {
				t.Errorf("%d stops, %d rows resumed, checkpoints at rows %v", stops, r.Resumed, rows)
			}
			if err := RemoveCheckpoint(o.Checkpoint); err != nil {
				t.Error(err)
			}
			if err := RemoveCheckpoint(o.Checkpoint); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// The sums of a table of many units are nodes of a tree: a fit that is stopped goes on with all of them.
func TestInterruptedUnits(t *testing.T) {
	src := openedUnits(t, table(1730), 3000)
	if n := len(data.UnitsOf(src)); n < 2*par.Fan {
		t.Fatalf("%d units", n)
	}
	for _, name := range []string{"ridge", "smoother", "density"} {
		o := kinds()[name]
		m, r, _ := stopAt(t, src, o, 0)
		model, report := outcome(t, m, r)
		o.Checkpoint, o.CheckpointEvery = filepath.Join(t.TempDir(), "c"), time.Nanosecond
		stops, levels, until := 0, 0, int64(0)
		for m = nil; m == nil; {
			ctx, cancel := context.WithCancel(t.Context())
			until += 250
			o.Progress = func(stage string, done, _ int64) {
				if stage == stageFit && done > until {
					cancel()
				}
			}
			var err error
			if m, r, err = Fit(ctx, src, o); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if cancel(); err != nil {
				stops++
			}
			if c := readState(t, o.Checkpoint); c != nil {
				levels = max(levels, len(c.Nodes))
			}
		}
		if gotModel, gotReport := outcome(t, m, r); !bytes.Equal(gotModel, model) || !bytes.Equal(gotReport, report) {
			t.Errorf("%s: another model or report after %d stops", name, stops)
		}
		if stops < 3 || r.Resumed == 0 || (levels == 2) != (name != "density") { // which has folds
			t.Errorf("%s: %d stops, %d rows resumed, %d levels", name, stops, r.Resumed, levels)
		}
	}
}

func readState(t testing.TB, path string) *checkpointState {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	c, err := tensorfile.Parse(b)
	if err == nil {
		err = c.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := new(checkpointState)
	if err := json.Unmarshal([]byte(c.Metadata["state"]), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// stopped leaves a checkpoint in the middle of the rows.
func stopped(t testing.TB, src data.Source, o Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(stage string, done, _ int64) {
		if o.Kind != machine.KindLogistic && stage == stageFit && done >= 700 || stage == "steps" && done >= 5 {
			cancel()
		}
	}
	if _, _, err := Fit(ctx, src, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s := readState(t, o.Checkpoint); s == nil || s.Rows == 0 {
		t.Fatalf("checkpoint %+v", s)
	}
}

// A checkpoint that cannot be written, because the disk is full or its directory is gone, is one warning and one note.
// The fit goes on, to the model that it would have without a checkpoint.
func TestUnwritableCheckpoint(t *testing.T) {
	defer func(share time.Duration) { checkpointShare = share }(checkpointShare)
	checkpointShare = 0 // every block and every step tries
	src := opened(t, table(1730))
	for _, name := range []string{"ridge", "logistic"} {
		for _, when := range []string{"choose", stageFit} {
			o := kinds()[name]
			m, r, _ := stopAt(t, src, o, 0)
			model, _ := outcome(t, m, r)
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			o.Checkpoint, o.CheckpointEvery = filepath.Join(dir, "c"), time.Nanosecond
			gone, written, warnings := false, false, []string{}
			remove := func(stage string, _, _ int64) {
				if !gone && (stage == when || stage == stageFit || stage == "steps") {
					_, err := os.Stat(o.Checkpoint)
					written = err == nil
					gone = true
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			o.Progress, o.Warn = remove, func(text string) { warnings = append(warnings, text) }
			m, r2, err := Fit(t.Context(), src, o)
			if err != nil {
				t.Fatalf("%s, directory removed at %s: %v", name, when, err)
			}
			if got, _ := outcome(t, m, r2); !bytes.Equal(got, model) {
				t.Errorf("%s, %s: another model", name, when)
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], o.Checkpoint) || len(r2.Notes) != len(r.Notes)+1 ||
				!slices.Contains(r2.Notes, warnings[0]) {
				t.Errorf("%s, %s: warnings %q, notes %q, want those of %q and the warning", name, when, warnings,
					r2.Notes, r.Notes)
			}
			if written != (when == stageFit) {
				t.Errorf("%s, %s: a checkpoint before: %v", name, when, written)
			}
		}
	}
	// An interruption says that nothing was kept.
	o := kinds()["ridge"]
	dir := filepath.Join(t.TempDir(), "d")
	o.Checkpoint = filepath.Join(dir, "c")
	if _, _, err := Fit(t.Context(), src, o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory from the start: %v", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(stage string, _, _ int64) {
		if stage == stageFit && ctx.Err() == nil {
			os.RemoveAll(dir)
			cancel()
		}
	}
	_, _, err := Fit(ctx, src, o)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), o.Checkpoint) {
		t.Errorf("interrupted: %v", err)
	}
	// What is no file is not read: /dev/full has no end.
	if info, err := os.Stat("/dev/full"); err == nil && !info.Mode().IsRegular() {
		o.Checkpoint, o.Progress = "/dev/full", nil
		if _, _, err := Fit(t.Context(), src, o); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("/dev/full: %v", err)
		}
	}
}

func TestUnusableCheckpoints(t *testing.T) {
	b := table(1730)
	src := opened(t, b)
	for _, name := range []string{"ridge", "smoother", "logistic"} {
		o := kinds()[name]
		o.Checkpoint = filepath.Join(t.TempDir(), "c")
		stopped(t, src, o)
		good, err := os.ReadFile(o.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		fails := func(what string, src data.Source, o Options, want error, says string) {
			t.Helper()
			before, _ := os.ReadFile(o.Checkpoint)
			_, _, err := Fit(context.Background(), src, o)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) ||
				!strings.Contains(err.Error(), o.Checkpoint) ||
				!strings.Contains(err.Error(), "delete the file") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if after, _ := os.ReadFile(o.Checkpoint); !bytes.Equal(before, after) {
				t.Errorf("%s, %s: the checkpoint was changed", name, what)
			}
		}
		// Other options, one by one.
		for what, change := range map[string]func(*Options){
			"seed":      func(o *Options) { o.Seed++ },
			"features":  func(o *Options) { o.Features = 50 },
			"bandwidth": func(o *Options) { o.Bandwidth = 9 },
			"folds":     func(o *Options) { o.Folds = 4 },
			"block":     func(o *Options) { o.Block = 99 },
			"float32":   func(o *Options) { o.Float32 = true },
			"columns":   func(o *Options) { o.Learn.Skip = append([]string{"a"}, o.Learn.Skip...) },
		} {
			other := o
			change(&other)
			fails(what, src, other, machine.ErrMismatch, "its "+what+" is")
		}
		// Other tables: another column, and rows that differ in one place that the sums hold.
		fails("column", opened(t, bytes.Replace(b, []byte("colour"), []byte("color"), 1)), o, machine.ErrMismatch,
			"its columns is")
		line := bytes.SplitAfter(b, []byte("\n"))
		line[300] = bytes.Replace(line[300], []byte("."), []byte(".1"), 1)
		fails("row", opened(t, bytes.Join(line, nil)), o, machine.ErrMismatch, "the table has changed")
		// Damage.
		for what, d := range map[string][]byte{
			"empty":     {},
			"truncated": good[:len(good)/2],
			"one bit": append(bytes.Clone(good[:len(good)-40]), append([]byte{good[len(good)-40] ^ 1},
				good[len(good)-39:]...)...),
			"text": []byte("not a checkpoint at all"),
		} {
			if err := os.WriteFile(o.Checkpoint, d, 0o600); err != nil {
				t.Fatal(err)
			}
			fails(what, src, o, machine.ErrCorrupt, "")
		}
		// Right checksums, wrong contents.
		for what, change := range map[string]func(c *tensorfile.File){
			"format":  func(c *tensorfile.File) { c.Metadata["format"] = "randfeat model" },
			"version": func(c *tensorfile.File) { c.Metadata["version"] = "1" },
			"state":   func(c *tensorfile.File) { c.Metadata["state"] = `{"rows":5,"unknown":1}` },
			"tensors": func(c *tensorfile.File) { c.Tensors = c.Tensors[1:] },
			"rows": func(c *tensorfile.File) {
				c.Metadata["state"] = strings.Replace(c.Metadata["state"], `,"hash":`, `1,"hash":`, 1)
			},
			"rest": func(c *tensorfile.File) { c.Metadata["state"] = "{}" },
		} {
			c, err := tensorfile.Parse(bytes.Clone(good))
			if err != nil {
				t.Fatal(err)
			}
			change(c)
			c.Seal()
			var out bytes.Buffer
			if _, err := c.WriteTo(&out); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(o.Checkpoint, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			fails(what, src, o, machine.ErrCorrupt, "")
		}
		// The checkpoint itself is still good.
		if err := os.WriteFile(o.Checkpoint, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, r, err := Fit(context.Background(), src, o); err != nil || r.Resumed == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := kinds()["ridge"]
	o.Checkpoint = t.TempDir()
	if _, _, err := Fit(context.Background(), src, o); err == nil || !strings.Contains(err.Error(), "checkpoint") {
		t.Errorf("a directory: %v", err)
	}
}
