package flow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
)

func TestMain(m *testing.M) {
	beam.Init()
	Quiet()
	ptest.Main(m)
}

// words writes the leaves as text, with brackets where they were merged: the order and the shape of the tree can be
// read from the result.
type words struct {
	out   string
	fail  int // the leaf that fails; −1: none
	count atomic.Int64
	now   atomic.Int64 // steps under way
	most  atomic.Int64
}

var errLeaf = errors.New("part-7.csv line 3: column price: \"cheap\" is no number")

func (w *words) enter() func() {
	w.count.Add(1)
	w.most.Store(max(w.most.Load(), w.now.Add(1)))
	return func() { w.now.Add(-1) }
}

func (w *words) Leaf(_ context.Context, stage string, i int, file string) (int64, error) {
	defer w.enter()()
	if i == w.fail {
		return 0, errLeaf
	}
	return 1, os.WriteFile(file, []byte(fmt.Sprint(stage[:1], i)), 0o666)
}

func (w *words) Merge(_ context.Context, _ string, _ int, file string, in []Ref) (int64, error) {
	defer w.enter()()
	text, rows, err := read(in)
	if err != nil {
		return 0, err
	}
	return rows, os.WriteFile(file, []byte("("+text+")"), 0o666)
}

func (w *words) End(_ context.Context, stage string, in []Ref) error {
	defer w.enter()()
	text, rows, err := read(in)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.out, stage), fmt.Append(nil, text, " ", rows), 0o666)
}

func read(in []Ref) (string, int64, error) {
	var parts []string
	var rows int64
	for _, r := range in {
		b, err := os.ReadFile(r.File)
		if err != nil {
			return "", 0, err
		}
		parts = append(parts, string(b))
		rows += r.Rows
	}
	return strings.Join(parts, " "), rows, nil
}

var theWords *words

func init() { Register("words", func([]byte) (Work, error) { return theWords, nil }) }

func job(t *testing.T, fail int) (Job, *words) {
	t.Helper()
	theWords = &words{out: t.TempDir(), fail: fail}
	return Job{Kind: "words", Config: []byte(t.Name()), Dir: t.TempDir(), Fan: 3}, theWords
}

func TestRun(t *testing.T) {
	j, w := job(t, -1)
	stages := []Stage{{Name: "a", Leaves: 1}, {Name: "b", Leaves: 11},
		{Name: "c", Leaves: 4, Groups: []int{0, 0, 0, 1}}}
	if err := Run(t.Context(), j, stages); err != nil {
		t.Fatal(err)
	}
	for stage, want := range map[string]string{
		"a": "a0 1",
		"b": "(((b0 b1 b2) (b3 b4 b5) (b6 b7 b8)) (b9 b10)) 11", // a pair alone in its level is not merged again
		"c": "(c0 c1 c2) (c3) 4",
	} {
		if got, err := os.ReadFile(filepath.Join(w.out, stage)); string(got) != want {
			t.Errorf("stage %s: %q, want %q (%v)", stage, got, want, err)
		}
	}
	if w.most.Load() != 1 {
		t.Errorf("%d steps at once", w.most.Load())
	}
	// Nothing is left but the notes; a second run has nothing to do.
	filepath.WalkDir(j.Dir, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() && !strings.HasSuffix(path, doneSuffix) {
			t.Errorf("%s is left", path)
		}
		return nil
	})
	steps := w.count.Load()
	if err := Run(t.Context(), j, stages); err != nil || w.count.Load() != steps {
		t.Errorf("a second run: %d steps, %v", w.count.Load()-steps, err)
	}
}

func TestRunFails(t *testing.T) {
	j, w := job(t, 5)
	err := Run(t.Context(), j, []Stage{{Name: "a", Leaves: 7}, {Name: "b", Leaves: 2}})
	if err == nil || err.Error() != errLeaf.Error() {
		t.Errorf("error %q, want %q", err, errLeaf)
	}
	if files, _ := os.ReadDir(w.out); len(files) > 0 {
		t.Errorf("%v was written", files)
	}
	w.fail = -1
	if err := Run(t.Context(), j, []Stage{{Name: "a", Leaves: 7}, {Name: "b", Leaves: 2}}); err != nil {
		t.Errorf("the run after what failed was mended: %v", err)
	}
}

// A worker that was thought lost may still be at work when another has done its step and removed the inputs.
func TestStepTwice(t *testing.T) {
	j, w := job(t, -1)
	ctx := t.Context()
	leaf := func(w Work, file string) (int64, error) { return w.Leaf(ctx, "a", 0, file) }
	in, err := j.step(ctx, "a", 0, 0, nil, leaf)
	if err != nil {
		t.Fatal(err)
	}
	merge := func(w Work, file string) (int64, error) { return w.Merge(ctx, "a", 0, file, []Ref{in}) }
	var first Ref
	second, err := j.step(ctx, "a", 1, 0, []Ref{in}, func(w Work, file string) (int64, error) {
		<-turn // the other process
		first, err = j.step(ctx, "a", 1, 0, []Ref{in}, merge)
		turn <- struct{}{}
		if err != nil {
			t.Fatal(err)
		}
		return merge(w, file)
	})
	if err != nil || first != second {
		t.Errorf("%v and %v: %v", first, second, err)
	}
	if again, err := j.step(ctx, "a", 0, 0, nil, leaf); err != nil || again != in || w.count.Load() != 3 {
		t.Errorf("the leaf again: %v, %v, %d steps", again, err, w.count.Load())
	}
}
