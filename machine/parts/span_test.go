package parts

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// trace is a body that writes down how it was merged.
type trace struct{ how string }

func (t *trace) merge(o body) error {
	t.how = "(" + t.how + " " + o.(*trace).how + ")"
	return nil
}
func (t *trace) rows() int64             { return 0 }
func (t *trace) size() (int64, error)    { return 0, nil }
func (t *trace) write(w io.Writer) error { return nil }

// fold defines the content of a node: the first child, and the others merged into it one after the other.
func fold(t tree, level, leaf int) string {
	if level == 0 {
		return fmt.Sprint(leaf)
	}
	n, out := t.node(level, leaf), ""
	for at := n.Lo; at < n.Hi; at += t.width(level - 1) {
		if child := fold(t, level-1, at); out == "" {
			out = child
		} else {
			out = "(" + out + " " + child + ")"
		}
	}
	return out
}

// traced is a step over n leaves whose bodies are traces.
func traced(n int) *Step {
	return &Step{run: &Run{units: make([]data.Unit, n)}}
}

func (s *Step) traceLeaf(i int) *Part {
	return &Part{step: s, span: Span{i, i + 1}, body: &trace{fmt.Sprint(i)}}
}

// However leaves are divided among workers and their parts merged, the tree is that of the definition.
func TestTree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 72, 100, 200, 511, 512} {
		s := traced(n)
		tr := s.run.tree()
		want := fold(tr, tr.root(), 0)
		for round := range 6 {
			borders := []int{0, n}
			for range round {
				borders = append(borders, rnd.IntN(n+1))
			}
			var parts []*Part
			for at := 0; at < n; {
				hi := n
				for _, b := range borders {
					if b > at {
						hi = min(hi, b)
					}
				}
				before := len(parts)
				most := 0
				f := folder{t: tr, out: func(p *Part) error {
					parts = append(parts, p)
					return nil
				}}
				for i := at; i < hi; i++ {
					if err := f.add(s.traceLeaf(i)); err != nil {
						t.Fatal(err)
					}
					most = max(most, len(f.open))
				}
				parts = append(parts, f.open...)
				if most > tr.root()+1 {
					t.Errorf("%d leaves: %d open nodes", n, most)
				}
				if got := len(parts) - before; got > 8*(tr.root()+1)*2 {
					t.Errorf("%d to %d of %d leaves: %d parts", at, hi, n, got)
				}
				at = hi
			}
			for _, p := range parts {
				if tr.level(p.span) < 0 {
					t.Fatalf("%v of %d leaves is no part", p.span, n)
				}
			}
			rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			whole, err := s.Whole(parts)
			if err != nil {
				t.Fatalf("%d leaves, borders %v: %v", n, borders, err)
			}
			if got := whole.body.(*trace).how; got != want {
				t.Fatalf("%d leaves, borders %v: %s, want %s", n, borders, got, want)
			}
		}
	}
}

// Children of one node become that node; one leaf is one part.
func TestMergeOfANode(t *testing.T) {
	s := traced(100)
	for _, lo := range []int{0, 8, 56, 64, 96} {
		var parts []*Part
		for i := lo; i < min(lo+8, 100); i++ {
			parts = append(parts, s.traceLeaf(i))
		}
		got, err := s.Merge(parts)
		if err != nil || len(got) != 1 || got[0].span != s.run.tree().node(1, lo) {
			t.Errorf("children of the node at %d: %v, %v", lo, got, err)
		}
	}
}

func TestRange(t *testing.T) {
	for _, leaves := range []int{1, 2, 7, 100, 512} {
		r := &Run{units: make([]data.Unit, leaves)}
		for _, n := range []int{1, 2, 3, 7, 31, 64, 600} {
			at, most := 0, 0
			for i := range n {
				s, err := r.Range(i, n)
				if err != nil || s.Lo != at || s.Hi < s.Lo {
					t.Fatalf("worker %d of %d: %v, %v; %d leaves are given away", i, n, s, err, at)
				}
				at, most = s.Hi, max(most, s.Hi-s.Lo)
			}
			if at != leaves || most > 2*((leaves+n-1)/n) {
				t.Errorf("%d workers have %d of %d leaves, one has %d", n, at, leaves, most)
			}
		}
		for _, bad := range [][2]int{{-1, 2}, {2, 2}, {0, 0}} {
			if _, err := r.Range(bad[0], bad[1]); err == nil {
				t.Errorf("worker %v is accepted", bad)
			}
		}
	}
}

// Leaves that are missing or in two parts are named.
func TestGapsAndDuplicates(t *testing.T) {
	r := testRun(t, regressionFiles(t, 9, 20), Options{Options: regressionOptions()})
	s, err := r.Learn()
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(i int) *Part {
		p, err := s.leaf(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	_, err = s.Whole([]*Part{leaf(0), leaf(1), leaf(3)})
	if err == nil || !strings.Contains(err.Error(), "part-002.csv") {
		t.Errorf("a gap: %v", err)
	}
	_, err = s.Whole([]*Part{leaf(0), leaf(1), leaf(1)})
	if err == nil || !strings.Contains(err.Error(), "part-001.csv is in two parts") {
		t.Errorf("a duplicate: %v", err)
	}
	if _, err := s.Whole(nil); err == nil || !strings.Contains(err.Error(), "part-000.csv") {
		t.Errorf("no parts: %v", err)
	}
	if err := s.Do(t.Context(), Span{3, 11}, nil); err == nil {
		t.Error("leaves that are not there are read")
	}
}
