package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/seal"
)

// learnTable is a table with a column of every kind, some of more texts than are held, cut into parts of a few rows.
func learnTable(rows, seed int) (header string, parts []string) {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	header = "num,int,cat,id,flag,date,money,gaps,const,many,late,y\n"
	var b strings.Builder
	for i := range rows {
		gap := fmt.Sprint(rng.IntN(5))
		if rng.IntN(3) == 0 {
			gap = ""
		}
		late := fmt.Sprint(rng.IntN(1000))
		if i > rows/2 && rng.IntN(20) == 0 {
			late = "n/k"
		}
		fmt.Fprintf(&b, "%g,%d,%c,id%d,%v,%02d.%02d.2024,\"%d.%03d,%02d\",%s,7,%s,%s,%g\n", rng.NormFloat64()*100,
			rng.IntN(6), 'a'+rune(rng.IntN(5)), i, rng.IntN(2) == 0, 1+rng.IntN(28), 1+rng.IntN(12), 1+rng.IntN(9),
			rng.IntN(1000), rng.IntN(100), gap, zipf(rng), late, rng.ExpFloat64())
		if rng.IntN(7) == 0 || i == rows-1 {
			parts = append(parts, b.String())
			b.Reset()
		}
	}
	return header, parts
}

// zipf is a text of thousands, some frequent.
func zipf(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return fmt.Sprintf("h%d", rng.IntN(40))
	}
	return fmt.Sprintf("r%d", rng.IntN(100000))
}

func textSource(t *testing.T, name, text string) Source {
	t.Helper()
	src, err := OpenBytes(name, []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func learnerBytes(t *testing.T, l *Learner) []byte {
	t.Helper()
	b, err := l.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Leaves merged in any grouping along the tree are the same learner, saved and read on the way or not.
func TestLearnerGroupings(t *testing.T) {
	header, parts := learnTable(420, 3)
	parts = parts[:min(len(parts), 8*8+5)]
	o := LearnOptions{Targets: []string{"y"}}
	of := func(text string) *Learner {
		src := textSource(t, "part.csv", header+text)
		l, err := NewLearner("table", src.Columns(), o)
		if err != nil {
			t.Fatal(err)
		}
		l.tracked = 64 // so that "many" and "id" have more texts than are held
		for _, c := range l.cols {
			c.counts = l.newCounts(c.role)
		}
		if err := l.AddSource(src); err != nil {
			t.Fatal(err)
		}
		return l
	}
	one := func(i int) *Learner { return of(parts[i]) }
	tree := par.Tree[*Learner]{Merge: (*Learner).Merge}
	for i := range parts {
		if err := tree.Add(one(i)); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := tree.Root()
	if err != nil {
		t.Fatal(err)
	}
	want := learnerBytes(t, root)

	// The definition: level by level.
	level := make([]*Learner, len(parts))
	for i := range parts {
		level[i] = one(i)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for len(level) > 1 {
		var up []*Learner
		for lo := 0; lo < len(level); lo += par.Fan {
			node := level[lo]
			for _, c := range level[lo+1 : min(lo+par.Fan, len(level))] {
				if rng.IntN(4) == 0 { // by way of bytes
					b := learnerBytes(t, c)
					if c, err = readLearner(b); err != nil {
						t.Fatal(err)
					}
					c.tracked = 64
					if !bytes.Equal(learnerBytes(t, c), b) {
						t.Fatal("a learner that was read is other bytes")
					}
				}
				if err := node.Merge(c); err != nil {
					t.Fatal(err)
				}
			}
			up = append(up, node)
		}
		level = up
	}
	if !bytes.Equal(learnerBytes(t, level[0]), want) {
		t.Error("level by level: other bytes than one after the other")
	}

	// Statistics that do not depend on the cut equal those of one table.
	s, sum, err := root.Schema()
	if err != nil {
		t.Fatal(err)
	}
	whole, wholeSum, err := of(strings.Join(parts, "")).Schema()
	if err != nil {
		t.Fatal(err)
	}
	if sum.Rows != wholeSum.Rows {
		t.Fatalf("%d rows, of one table %d", sum.Rows, wholeSum.Rows)
	}
	fields := map[string]Field{}
	for _, f := range whole.Fields {
		fields[f.Name] = f
	}
	compared := 0
	for _, f := range s.Fields {
		g, ok := fields[f.Name]
		if f.Name == "many" || f.Name == "late" || f.Name == "id" { // more texts than are held: the cut matters
			continue
		}
		compared++
		near := func(a, b float64) bool { d := a - b; return d*d <= 1e-24*(1+b*b) }
		if !ok || f.Kind != g.Kind || f.Format != g.Format || f.Missing != g.Missing || !near(f.Mean, g.Mean) ||
			!near(f.Scale, g.Scale) || !slices.Equal(f.Levels, g.Levels) {
			t.Errorf("%+v, of one table %+v", f, g)
		}
	}
	if compared != 7 {
		t.Errorf("%d fields compared, want 7: %+v", compared, s.Fields)
	}
}

// A column of numbers in one file and of texts in another is an error that names both, whoever meets it.
func TestLearnerKindsConflict(t *testing.T) {
	learn := func(shard int, text string) *Learner {
		src := shardOf{textSource(t, fmt.Sprintf("part-%d.csv", shard), text), shard}
		l, err := NewLearner("table", src.Columns(), LearnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AddSource(src); err != nil {
			t.Fatal(err)
		}
		return l
	}
	texts := []string{"x,y\n1,2\n2,3\n", "x,y\n4,a\n5,6\n", "x,y\n6,b\n7,c\n", "x,y\n8,2\n9,3\n"}
	for _, order := range [][]int{{0, 1, 2, 3}, {2, 0}, {1, 0, 2}} {
		for split := 1; split < len(order); split++ { // left fold of each half, then both
			fold := func(of []int) *Learner {
				l := learn(of[0], texts[of[0]])
				for _, k := range of[1:] {
					if err := l.Merge(learn(k, texts[k])); err != nil {
						t.Fatal(err)
					}
				}
				return l
			}
			l := fold(order[:split])
			if err := l.Merge(fold(order[split:])); err != nil {
				t.Fatal(err)
			}
			_, _, err := l.Schema()
			if err == nil || !strings.Contains(err.Error(), "part-2.csv") ||
				!strings.Contains(err.Error(), "part-0.csv") {
				t.Errorf("%v cut at %d: %v", order, split, err)
			}
		}
	}
	l := learn(1, texts[1]) // both kinds in one file are levels
	if err := l.Merge(learn(2, texts[2])); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Schema(); err != nil {
		t.Error(err)
	}
}

// shardOf says of which shard the rows of a source are.
type shardOf struct {
	Source
	shard int
}

func (s shardOf) Open(want []Kind) (Reader, error) {
	r, err := s.Source.Open(want)
	return shardReader{r, s.shard}, err
}

type shardReader struct {
	Reader
	shard int
}

func (r shardReader) Read(b *Block, most int) error {
	err := r.Reader.Read(b, most)
	b.Unit.Shard = r.shard
	return err
}

// The bounds of counts hold after merges.
func TestCountsMergeBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := map[string]int64{}
	const k = 50
	sum := newCounts(k)
	for range 37 {
		c := newCounts(k)
		for range 400 {
			text := zipf(rng)
			all[text]++
			c.add([]byte(text))
		}
		sum.merge(c)
	}
	if sum.total != 37*400 || len(sum.of) > k || sum.lost > sum.total/(k+1) {
		t.Fatalf("%d texts, %d held, %d lost of at most %d", sum.total, len(sum.of), sum.lost, sum.total/(k+1))
	}
	for text, n := range all {
		held := int64(0)
		if c, ok := sum.of[text]; ok {
			held = *c
		}
		if held > n || held < n-sum.lost {
			t.Errorf("%s: %d, held %d, lost %d", text, n, held, sum.lost)
		}
	}
}

func TestLearnerRefuses(t *testing.T) {
	src := textSource(t, "a.csv", "x,y\n1,2\n")
	a, _ := NewLearner("a", src.Columns(), LearnOptions{})
	b, _ := NewLearner("b", src.Columns(), LearnOptions{Targets: []string{"y"}})
	if err := a.Merge(b); err == nil {
		t.Error("a learner with other options is merged")
	}
	if err := a.AddSource(textSource(t, "b.csv", "x,z\n1,2\n")); err == nil {
		t.Error("other columns are added")
	}
	if _, _, err := a.Schema(); err == nil {
		t.Error("a schema of no rows")
	}
	if err := a.AddSource(src); err != nil {
		t.Fatal(err)
	}
	good := learnerBytes(t, a)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := readLearner(bad); err == nil {
			t.Fatalf("byte %d was changed, and no error", i)
		}
		if _, err := readLearner(good[:i]); err == nil {
			t.Fatalf("cut at %d, and no error", i)
		}
	}
}

// FuzzReadLearner: bytes with a right checksum give an error or a learner that decides, merges and is saved again as it
// was.
func FuzzReadLearner(f *testing.F) {
	header, parts := learnTable(60, 9)
	src, err := OpenBytes("t.csv", []byte(header+strings.Join(parts, "")), Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range []LearnOptions{{}, {Targets: []string{"y"}, Skip: []string{"id"}}, {Targets: []string{"cat"},
		Text: []string{"many"}, Categorical: []string{"int"}}} {
		l, err := NewLearner("t", src.Columns(), o)
		if err != nil {
			f.Fatal(err)
		}
		if err := l.AddSource(src); err != nil {
			f.Fatal(err)
		}
		b, err := l.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-32])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := readLearner(seal.Close(bytes.Clone(b), 0))
		if err != nil {
			return
		}
		again, err := l.MarshalBinary()
		if err != nil || !bytes.Equal(again[:len(again)-32], b) {
			t.Fatalf("saved again as other bytes: %v", err)
		}
		_, _, _ = l.Schema()
		other, err := readLearner(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Merge(other); err == nil {
			_, _, _ = l.Schema()
		}
	})
}
