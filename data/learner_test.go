package data_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
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

func textSource(t *testing.T, name, content string) data.Source {
	t.Helper()
	src, err := text.OpenBytes(name, []byte(content), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func learnerBytes(t *testing.T, l *data.Learner) []byte {
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
	o := data.LearnOptions{Targets: []string{"y"}}
	of := func(content string) *data.Learner {
		src := textSource(t, "part.csv", header+content)
		l, err := data.NewLearner("table", src.Columns(), o)
		if err != nil {
			t.Fatal(err)
		}
		l.Track(64) // so that "many" and "id" have more texts than are held
		if err := l.AddSource(src); err != nil {
			t.Fatal(err)
		}
		return l
	}
	one := func(i int) *data.Learner { return of(parts[i]) }
	tree := par.Tree[*data.Learner]{Merge: (*data.Learner).Merge}
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
	level := make([]*data.Learner, len(parts))
	for i := range parts {
		level[i] = one(i)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for len(level) > 1 {
		var up []*data.Learner
		for lo := 0; lo < len(level); lo += par.Fan {
			node := level[lo]
			for _, c := range level[lo+1 : min(lo+par.Fan, len(level))] {
				if rng.IntN(4) == 0 { // by way of bytes
					b := learnerBytes(t, c)
					if c, err = data.ReadLearner(b); err != nil {
						t.Fatal(err)
					}
					c.TrackLater(64)
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
	fields := map[string]data.Field{}
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
	learn := func(shard int, content string) *data.Learner {
		src := shardOf{textSource(t, fmt.Sprintf("part-%d.csv", shard), content), shard}
		l, err := data.NewLearner("table", src.Columns(), data.LearnOptions{})
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
			fold := func(of []int) *data.Learner {
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
	data.Source
	shard int
}

func (s shardOf) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	return shardReader{r, s.shard}, err
}

type shardReader struct {
	data.Reader
	shard int
}

func (r shardReader) Read(b *data.Block, most int) error {
	err := r.Reader.Read(b, most)
	b.Unit.Shard = r.shard
	return err
}

func TestLearnerRefuses(t *testing.T) {
	src := textSource(t, "a.csv", "x,y\n1,2\n")
	a, _ := data.NewLearner("a", src.Columns(), data.LearnOptions{})
	b, _ := data.NewLearner("b", src.Columns(), data.LearnOptions{Targets: []string{"y"}})
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
		if _, err := data.ReadLearner(bad); err == nil {
			t.Fatalf("byte %d was changed, and no error", i)
		}
		if _, err := data.ReadLearner(good[:i]); err == nil {
			t.Fatalf("cut at %d, and no error", i)
		}
	}
}

// FuzzReadLearner: bytes with a right checksum give an error or a learner that decides, merges and is saved again as it
// was.
func FuzzReadLearner(f *testing.F) {
	header, parts := learnTable(60, 9)
	src, err := text.OpenBytes("t.csv", []byte(header+strings.Join(parts, "")), data.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range []data.LearnOptions{{}, {Targets: []string{"y"}, Skip: []string{"id"}}, {Targets: []string{"cat"},
		Text: []string{"many"}, Categorical: []string{"int"}}} {
		l, err := data.NewLearner("t", src.Columns(), o)
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
		l, err := data.ReadLearner(seal.Close(bytes.Clone(b), 0))
		if err != nil {
			return
		}
		again, err := l.MarshalBinary()
		if err != nil || !bytes.Equal(again[:len(again)-32], b) {
			t.Fatalf("saved again as other bytes: %v", err)
		}
		_, _, _ = l.Schema()
		other, err := data.ReadLearner(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Merge(other); err == nil {
			_, _, _ = l.Schema()
		}
	})
}

// A table cut into units is learned along the tree, in one go and unit by unit.
func TestCutLearnsTheSame(t *testing.T) {
	header, parts := learnTable(300, 11)
	content := header + strings.Join(parts, "")
	o := data.LearnOptions{Targets: []string{"y"}}
	for _, size := range []int64{700, 3000} {
		src, err := text.OpenBytes("t.csv", []byte(content), data.Options{UnitBytes: size})
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := data.Learn(src, o)
		if err != nil {
			t.Fatal(err)
		}
		tree := par.Tree[*data.Learner]{Merge: (*data.Learner).Merge}
		for i := range src.(data.Splitter).Blocks() {
			b, err := src.(data.Splitter).Block(i)
			if err != nil {
				t.Fatal(err)
			}
			l, err := data.NewLearner("t.csv", b.Columns(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.AddSource(b); err != nil {
				t.Fatal(err)
			}
			if err := tree.Add(l); err != nil {
				t.Fatal(err)
			}
		}
		l, _, err := tree.Root()
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := l.Schema()
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest() != want.Digest() {
			t.Errorf("units of %d bytes: %+v, in one go %+v", size, got, want)
		}
	}
}

// zipf is a text of thousands, some frequent.
func zipf(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return fmt.Sprintf("h%d", rng.IntN(40))
	}
	return fmt.Sprintf("r%d", rng.IntN(100000))
}
